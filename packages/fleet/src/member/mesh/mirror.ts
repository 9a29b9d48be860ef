import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import { type Gateway, GATEWAYS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer } from "@fairlead/kube/types.ts";
import type { MeshInformers } from "../fleet-addresses.ts";
import { membershipOf, type Session } from "../session.ts";
import type { ViewSource } from "../view-source.ts";

interface Mirror extends AsyncDisposable {
  /** The mailbox is read while gateways are shown. */
  follow(isShown: boolean): Promise<void>;
  write(source: ViewSource, signal: AbortSignal): Promise<void>;
}

/**
 * This cluster's gateways to the mailbox, and back what the hub says of them: their numbers and whether it accepts them.
 * The mailbox of a cluster that leaves the network is emptied by the hub.
 */
export function createMirror(session: Session, mesh: MeshInformers, onChange: () => void): Mirror {
  const { hub, cluster, deps } = session;
  const namespace = mailboxOf(cluster);
  let reading: { readonly informer: Informer<Gateway>; readonly stop: AbortController } | undefined;

  async function end(): Promise<void> {
    const before = reading;
    reading = undefined;
    before?.stop.abort();
    await before?.informer[Symbol.asyncDispose]();
  }

  return {
    async follow(isShown) {
      if (isShown === (reading !== undefined)) return;
      if (!isShown) return end();
      const stop = new AbortController();
      const informer = createInformer(hub, GATEWAYS, { namespace, fieldManager: MEMBER_MANAGER }, deps);
      reading = { informer, stop };
      informer.subscribe(onChange);
      informer.start(stop.signal);
      void informer.synced(stop.signal).then(onChange, () => {});
    },
    async write(source, signal) {
      if (reading?.informer.hasSynced !== true || membershipOf(session) !== "join") return;
      const { store } = reading.informer;
      const own = [...mesh.gateways.store.list()].filter((it) => it.spec.cluster === cluster);
      const shown = new Set(own.filter((it) => !isDeleting(it)).map((it) => it.metadata.name));
      for (const it of store.list())
        if (!shown.has(it.metadata.name)) await hub.delete(GATEWAYS, keyOf(it), { signal });
      for (const gateway of own.filter((it) => !isDeleting(it))) {
        const { name } = gateway.metadata;
        const { index: _given, ...spec } = gateway.spec;
        const current = store.get(objectKey(namespace, name));
        const desired = { metadata: { namespace, name }, spec };
        await applyIfChanged(hub, GATEWAYS, { current, desired, fieldManager: MEMBER_MANAGER, signal });
        await report(session, gateway, { current, index: source.find(GATEWAYS, name)?.spec.index }, signal);
      }
      // After the rest: an older hub refuses it.
      for (const gateway of own)
        await mirrorPaths(session, gateway, store.get(objectKey(namespace, gateway.metadata.name)), signal);
    },
    [Symbol.asyncDispose]: end,
  };
}

/** The report of the node on its tunnels; for the first one the object in the mailbox has to exist. */
async function mirrorPaths(
  { hub }: Session,
  { status: { paths, pathsReportedAt } = {} }: Gateway,
  current: Gateway | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (current === undefined || paths === undefined || pathsReportedAt === undefined) return;
  const { namespace = "", name } = current.metadata;
  await applyIfChanged(hub, GATEWAYS, {
    current,
    desired: { metadata: { namespace, name }, status: { paths, pathsReportedAt } },
    fieldManager: MEMBER_MANAGER,
    subresource: "status",
    signal,
  });
}

/** Writes what the hub says of a gateway where its node and its owner see it. */
async function report(
  { local, deps }: Session,
  gateway: Gateway,
  { current, index }: { readonly current: Gateway | undefined; readonly index: number | undefined },
  signal: AbortSignal,
): Promise<void> {
  const { name } = gateway.metadata;
  const { cluster, ordinal, node } = gateway.spec;
  const desired = {
    metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name, labels: { [MANAGED_BY_LABEL]: MANAGED_BY } },
    spec: { cluster, ordinal, node, ...(index === undefined ? {} : { index }) },
  };
  if (index !== undefined)
    await applyIfChanged(local, GATEWAYS, {
      current: gateway,
      desired,
      fieldManager: MEMBER_MANAGER,
      signal,
    });
  const accepted = findCondition(current?.status?.conditions, "Accepted");
  if (accepted === undefined) return;
  const { type, status, reason, message } = accepted;
  await writeConditions(local, GATEWAYS, {
    object: gateway,
    own: new Set([type]),
    next: [{ type, status, reason, message }],
    fieldManager: MEMBER_MANAGER,
    clock: deps.clock,
    signal,
  });
}
