import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { SERVICE_IN_USE_BY_ANNOTATION } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExport,
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  type InternalServiceExport,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { aborted, testDeps } from "../support/fleet.ts";

/** The hub's part as others run it: it updates whole objects, and waits for the finalizers of members. */

const KEY = objectKey(undefined, "everything");
const prefix = "networking.fleet.azure.com";
const EXPORT_FINALIZER = `${prefix}/internal-svc-export-cleanup`;
const IMPORT_FINALIZER = `${prefix}/internalsvcimport-cleanup`;
const SERVICE_FINALIZER = `${prefix}/serviceimport-cleanup`;
const SLICE_FINALIZER = `${prefix}/endpointsliceexport-cleanup`;

/** What a fleet's administrator and the membership agent do for a member. */
export async function enroll(hub: KubeClient, cluster: string, user: string): Promise<void> {
  const namespace = `fleet-member-${cluster}`;
  await hub.create(NAMESPACES, { metadata: { name: namespace } });
  await hub.create(ROLES, {
    metadata: { namespace, name: `fleet-role-${cluster}` },
    rules: [
      {
        apiGroups: ["cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io", prefix],
        resources: ["*"],
        verbs: ["*"],
      },
      {
        apiGroups: [""],
        resources: ["events"],
        verbs: ["get", "list", "update", "patch", "watch", "create"],
      },
    ],
  });
  await hub.create(ROLE_BINDINGS, {
    metadata: { namespace, name: `fleet-rolebinding-${cluster}` },
    subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: user }],
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: `fleet-role-${cluster}` },
  });
  const internalMember: InternalMemberCluster = {
    metadata: { namespace, name: cluster },
    spec: { state: "Join", heartbeatPeriodSeconds: 1 },
  };
  await hub.create(INTERNAL_MEMBER_CLUSTERS, internalMember);
}

export async function runOriginalHub(client: KubeClient, signal: AbortSignal): Promise<void> {
  const deps = testDeps("original-hub");
  const make = <T extends KubeObject>(of: Resource<T>): Informer<T> => createInformer(client, of, {}, deps);
  const hub = new OriginalHub(client, {
    exports: make(INTERNAL_SERVICE_EXPORTS),
    imports: make(INTERNAL_SERVICE_IMPORTS),
    services: make(FLEET_SERVICE_IMPORTS),
    sliceExports: make(ENDPOINT_SLICE_EXPORTS),
    sliceImports: make(ENDPOINT_SLICE_IMPORTS),
  });
  await using stack = new AsyncDisposableStack();
  for (const it of Object.values(hub.informers)) stack.use(it as Informer<KubeObject>);
  await using controller = createController(
    {
      name: "original-hub",
      concurrency: 1,
      reconcile: () => hub.pass(),
      sources: Object.values(hub.informers).map((it) => watching(it as Informer<KubeObject>, () => [KEY])),
    },
    deps,
  );
  await controller.start(signal);
  await aborted(signal);
}

interface Informers {
  readonly exports: Informer<InternalServiceExport>;
  readonly imports: Informer<KubeObject & { spec: { serviceImportReference: { namespacedName: string } } }>;
  readonly services: Informer<FleetServiceImport>;
  readonly sliceExports: Informer<EndpointSliceExport>;
  readonly sliceImports: Informer<EndpointSliceExport>;
}

class OriginalHub {
  readonly client: KubeClient;
  readonly informers: Informers;
  constructor(client: KubeClient, informers: Informers) {
    this.client = client;
    this.informers = informers;
  }

  async pass(): Promise<void> {
    const names = new Set([
      ...[...this.informers.exports.store.list()].map((it) => it.spec?.serviceReference.namespacedName ?? ""),
      ...[...this.informers.services.store.list()].map(
        (it) => `${it.metadata.namespace}/${it.metadata.name}`,
      ),
    ]);
    for (const it of names) await this.#judge(it as ObjectKey);
    for (const it of this.informers.imports.store.list()) await this.#answer(it);
    for (const it of this.informers.sliceExports.store.list()) await this.#distribute(it);
  }

  async #judge(key: ObjectKey): Promise<void> {
    const ofService = [...this.informers.exports.store.list()].filter(
      (it) => it.spec?.serviceReference.namespacedName === key,
    );
    const isLeaving = (it: KubeObject): boolean => it.metadata.deletionTimestamp !== undefined;
    for (const it of ofService)
      await this.#finalize(INTERNAL_SERVICE_EXPORTS, it, EXPORT_FINALIZER, !isLeaving(it));
    const live = ofService.filter((it) => !isLeaving(it));
    const [namespace = "", name = ""] = key.split("/");
    const current = this.informers.services.store.get(key);
    if (live.length === 0 && current !== undefined) await this.#forget(key, current);
    else if (current !== undefined) await this.#resolve(live, current);
    else if (live.length > 0)
      await this.client.create(FLEET_SERVICE_IMPORTS, { metadata: { namespace, name } });
  }

  async #forget(key: ObjectKey, current: FleetServiceImport): Promise<void> {
    const { metadata } = current;
    if (metadata.deletionTimestamp === undefined) return this.client.delete(FLEET_SERVICE_IMPORTS, key);
    const { [SERVICE_IN_USE_BY_ANNOTATION]: _claim, ...annotations } = metadata.annotations ?? {};
    await this.client.update(FLEET_SERVICE_IMPORTS, {
      ...current,
      metadata: { ...metadata, annotations, finalizers: [] },
    });
  }

  /** Incumbent ports win, compared as a whole and in order. */
  async #resolve(live: readonly InternalServiceExport[], current: FleetServiceImport): Promise<void> {
    const before = current.status?.ports;
    const isHeld = live.some((it) => sameJson(it.spec?.ports, before));
    const ports = (isHeld ? before : live[0]?.spec?.ports) ?? [];
    const equal = live.filter((it) => sameJson(it.spec?.ports, ports));
    const status = {
      type: "ClusterSetIP" as const,
      ports,
      clusters: equal
        .map((it) => ({ cluster: it.spec?.serviceReference.clusterId ?? "" }))
        .toSorted((a, b) => a.cluster.localeCompare(b.cluster)),
    };
    if (!sameJson(current.status ?? {}, status))
      await this.client.update(FLEET_SERVICE_IMPORTS, { ...current, status }, { subresource: "status" });
    for (const it of live) await this.#report(it, equal.includes(it));
  }

  async #report(it: InternalServiceExport, isEqual: boolean): Promise<void> {
    const before = it.status?.conditions?.find((one) => one.type === "Conflict");
    if (before?.status === (isEqual ? "False" : "True")) return;
    const condition = {
      type: "Conflict",
      status: isEqual ? ("False" as const) : ("True" as const),
      reason: isEqual ? "NoConflictFound" : "ConflictFound",
      message: isEqual ? "no conflict" : "the ports differ",
      observedGeneration: it.metadata.generation ?? 0,
      lastTransitionTime: "2026-01-01T00:00:00Z",
    };
    await this.client.update(
      INTERNAL_SERVICE_EXPORTS,
      { ...it, status: { conditions: [condition] } },
      { subresource: "status" },
    );
  }

  /** One importer for each service. */
  async #answer(
    it: KubeObject & { spec: { serviceImportReference: { namespacedName: string } } },
  ): Promise<void> {
    const service = this.informers.services.store.get(
      it.spec.serviceImportReference.namespacedName as ObjectKey,
    );
    const mailbox = it.metadata.namespace ?? "";
    const holder = holderOf(service);
    if (it.metadata.deletionTimestamp !== undefined) {
      if (service !== undefined && holder === mailbox) await this.#claim(service, undefined);
      await this.#finalize(INTERNAL_SERVICE_IMPORTS, it, IMPORT_FINALIZER, false);
      return;
    }
    if (service?.status?.clusters === undefined || service.metadata.deletionTimestamp !== undefined) return;
    if (holder === undefined) {
      await this.#finalize(INTERNAL_SERVICE_IMPORTS, it, IMPORT_FINALIZER, true);
      await this.#claim(service, mailbox);
      return;
    }
    if (holder !== mailbox) return;
    const { status } = it as KubeObject & { status?: object };
    if (!sameJson(status, service.status))
      await this.client.update(INTERNAL_SERVICE_IMPORTS, { ...it, status: service.status } as KubeObject, {
        subresource: "status",
      });
  }

  async #claim(service: FleetServiceImport, mailbox: string | undefined): Promise<void> {
    const { [SERVICE_IN_USE_BY_ANNOTATION]: _before, ...others } = service.metadata.annotations ?? {};
    const value = { MemberClusters: { [mailbox ?? ""]: (mailbox ?? "").slice("fleet-member-".length) } };
    const claimed = { ...others, [SERVICE_IN_USE_BY_ANNOTATION]: JSON.stringify(value) };
    const annotations = mailbox === undefined ? others : claimed;
    const finalizers = mailbox === undefined ? [] : [SERVICE_FINALIZER];
    const metadata = { ...service.metadata, annotations, finalizers };
    await this.client.update(FLEET_SERVICE_IMPORTS, { ...service, metadata });
  }

  async #distribute(it: EndpointSliceExport): Promise<void> {
    const service = this.informers.services.store.get(
      it.spec.ownerServiceReference.namespacedName as ObjectKey,
    );
    const isLeaving = it.metadata.deletionTimestamp !== undefined;
    const holder = isLeaving ? undefined : holderOf(service);
    const copies = [...this.informers.sliceImports.store.list()].filter(
      (copy) => copy.metadata.name === it.metadata.name,
    );
    for (const copy of copies.filter((one) => one.metadata.namespace !== holder))
      await this.client.delete(
        ENDPOINT_SLICE_IMPORTS,
        objectKey(copy.metadata.namespace, copy.metadata.name),
      );
    if (holder === undefined) return this.#finalize(ENDPOINT_SLICE_EXPORTS, it, SLICE_FINALIZER, false);
    await this.#finalize(ENDPOINT_SLICE_EXPORTS, it, SLICE_FINALIZER, true);
    const copy = copies.find((one) => one.metadata.namespace === holder);
    if (copy === undefined)
      await this.client.create(ENDPOINT_SLICE_IMPORTS, {
        metadata: { namespace: holder, name: it.metadata.name },
        spec: it.spec,
      });
    else if (!sameJson(copy.spec, it.spec))
      await this.client.update(ENDPOINT_SLICE_IMPORTS, { ...copy, spec: it.spec });
  }

  async #finalize<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    finalizer: string,
    isWanted: boolean,
  ): Promise<void> {
    const before = object.metadata.finalizers ?? [];
    if (before.includes(finalizer) === isWanted) return;
    const others = before.filter((it) => it !== finalizer);
    const finalizers = isWanted ? [...others, finalizer] : others;
    // Fresh, so that what this pass wrote before is not undone.
    const fresh = await this.client.find(of, objectKey(object.metadata.namespace, object.metadata.name));
    if (fresh !== undefined)
      await this.client.update(of, { ...fresh, metadata: { ...fresh.metadata, finalizers } });
  }
}

function holderOf(service: FleetServiceImport | undefined): string | undefined {
  const text = service?.metadata.annotations?.[SERVICE_IN_USE_BY_ANNOTATION];
  if (text === undefined) return undefined;
  const { MemberClusters } = JSON.parse(text) as { MemberClusters: Record<string, string> };
  return Object.keys(MemberClusters)[0];
}
