import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import { TRAFFIC_ROUTES, type TrafficRoute } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { keyOf, type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, Informer } from "@fairlead/kube/types.ts";
import { isLegacy, membershipOf, type Session } from "../session.ts";

/** The hub's view, while it is read. */
interface Source {
  readonly namespace: string;
  readonly routes: Informer<TrafficRoute>;
  readonly stop: AbortController;
}

/**
 * Copies TrafficRoutes of the hub's view into `fleet-system`, where this cluster's DNS servers read them: they need no
 * way to the hub, and answer while it is away. Keys are names of routes in `fleet-system`, and the key of the InternalMemberCluster.
 */
export function createTrafficRoutes(session: Session): Controller {
  const { local, mailbox, cluster, deps } = session;
  const routes = createInformer(
    local,
    TRAFFIC_ROUTES,
    {
      namespace: FLEET_SYSTEM_NAMESPACE,
      labelSelector: `${MANAGED_BY_LABEL}=${MANAGED_BY}`,
      fieldManager: MEMBER_MANAGER,
    },
    deps,
  );
  const internalMemberKey = objectKey(mailboxOf(cluster), cluster);
  let source: Source | undefined;
  const localKey = (name: string): ObjectKey => objectKey(FLEET_SYSTEM_NAMESPACE, name);

  async function follow(): Promise<void> {
    const internalMember = mailbox.internalMembers.store.get(internalMemberKey);
    // An absent InternalMemberCluster ends nothing.
    if (internalMember === undefined) return;
    const wanted =
      !isLegacy(internalMember) && internalMember.spec.state === "Join"
        ? internalMember.spec.view
        : undefined;
    if (wanted !== source?.namespace) {
      const before = source;
      source = wanted === undefined ? undefined : begin(wanted);
      await end(before);
    }
    for (const it of routes.store.list()) controller.enqueue(keyOf(it));
  }

  function begin(namespace: string): Source {
    const stop = new AbortController();
    const begun: Source = {
      namespace,
      stop,
      routes: createInformer(session.hub, TRAFFIC_ROUTES, { namespace }, deps),
    };
    begun.routes.subscribe(({ key }) => controller.enqueue(localKey(splitKey(key).name)));
    begun.routes.start(stop.signal);
    // What is here and no longer there is found when all of it is known.
    void begun.routes.synced(stop.signal).then(
      () => controller.enqueue(internalMemberKey),
      () => {},
    );
    return begun;
  }

  async function end(it: Source | undefined): Promise<void> {
    it?.stop.abort();
    await it?.routes[Symbol.asyncDispose]();
  }

  /** Where the hub's word is not known, what it said last stays. */
  async function copy(key: ObjectKey, signal: AbortSignal): Promise<void> {
    if (membershipOf(session) === "none" || source?.routes.hasSynced === false) return;
    const { name } = splitKey(key);
    const wanted = source?.routes.store.get(objectKey(source.namespace, name));
    const current = routes.store.get(key);
    if (wanted === undefined) {
      if (current !== undefined) await local.delete(TRAFFIC_ROUTES, key, { signal });
      return;
    }
    const labels = { [MANAGED_BY_LABEL]: MANAGED_BY };
    const metadata = { namespace: FLEET_SYSTEM_NAMESPACE, name, labels };
    const desired = { metadata, spec: wanted.spec };
    await applyIfChanged(local, TRAFFIC_ROUTES, { current, desired, fieldManager: MEMBER_MANAGER, signal });
  }

  const controller = createController(
    {
      name: "member-traffic-routes",
      reconcile: (key, signal) => (key === internalMemberKey ? follow() : copy(key, signal)),
      concurrency: 2,
      sources: [watching(mailbox.internalMembers), watching(routes)],
    },
    deps,
  );
  return {
    name: controller.name,
    start: (signal) => controller.start(signal),
    enqueue: (key) => controller.enqueue(key),
    idle: (signal) => controller.idle(signal),
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await end(source);
      await routes[Symbol.asyncDispose]();
    },
  };
}
