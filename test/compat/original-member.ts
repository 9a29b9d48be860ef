import { randomUUID } from "node:crypto";
import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
  NETWORKING_AGENTS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject, ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExport,
  type ExportedObjectReference,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  type InternalServiceExport,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { aborted, testDeps } from "../support/fleet.ts";

/**
 * A member's agents as others run them, seen from the hub: they update whole objects, draw names by chance, put their
 * finalizer on copies before they import, and keep what they measured in annotations. The cluster behind is made up.
 */

const KEY = objectKey(undefined, "everything");
const PREFIX = "networking.fleet.azure.com";
const HELD = `${PREFIX}/endpointsliceimport-cleanup`;

export class OriginalMember {
  readonly cluster: string;
  readonly #namespace: string;
  readonly #client: KubeClient;
  readonly #port: number;
  /** By service, "namespace/name": ready addresses of its one slice. */
  readonly exports = new Map<string, readonly string[]>();
  /** Services that a MultiClusterService asks for. */
  readonly wanted = new Set<string>();
  /** The slices in the cluster's fleet-system, by name. */
  readonly imported = new Map<string, readonly string[]>();
  readonly #names = new Map<string, string>();
  #controller: Controller | undefined;

  constructor(client: KubeClient, cluster: string, port = 80) {
    this.cluster = cluster;
    this.#client = client;
    this.#namespace = `fleet-member-${cluster}`;
    this.#port = port;
  }

  /** Something in the cluster changed. */
  changed(): void {
    this.#controller?.enqueue(KEY);
  }

  async run(signal: AbortSignal): Promise<void> {
    const deps = testDeps(`original-${this.cluster}`);
    const at = { namespace: this.#namespace };
    await using stack = new AsyncDisposableStack();
    const internalMembers = stack.use(createInformer(this.#client, INTERNAL_MEMBER_CLUSTERS, at, deps));
    const exports = stack.use(createInformer(this.#client, INTERNAL_SERVICE_EXPORTS, at, deps));
    const imports = stack.use(createInformer(this.#client, INTERNAL_SERVICE_IMPORTS, at, deps));
    const sliceExports = stack.use(createInformer(this.#client, ENDPOINT_SLICE_EXPORTS, at, deps));
    const sliceImports = stack.use(createInformer(this.#client, ENDPOINT_SLICE_IMPORTS, at, deps));
    const everything = [internalMembers, exports, imports, sliceExports, sliceImports];
    await using controller = createController(
      {
        name: "original-member",
        concurrency: 1,
        reconcile: async () => {
          await this.#join(internalMembers);
          await this.#export(exports, sliceExports);
          await this.#ask(imports);
          await this.#import(sliceImports);
        },
        sources: everything.map((it) => watching(it as Informer<KubeObject>, () => [KEY])),
      },
      deps,
    );
    this.#controller = controller;
    await controller.start(signal);
    controller.enqueue(KEY);
    await aborted(signal);
  }

  /** Both agents report in the status, which is written as a whole. */
  async #join(internalMembers: Informer<InternalMemberCluster>): Promise<void> {
    const [object] = internalMembers.store.list();
    if (object === undefined || object.status?.agentStatus?.length === 2) return;
    const agentStatus = NETWORKING_AGENTS.map((type) => ({
      type,
      conditions: [
        {
          type: "Joined",
          status: "True" as const,
          reason: "AgentJoined",
          message: "",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
      lastReceivedHeartbeat: "2026-01-01T00:00:00Z",
    }));
    await this.#client.update(
      INTERNAL_MEMBER_CLUSTERS,
      { ...object, status: { ...object.status, agentStatus } },
      { subresource: "status" },
    );
  }

  async #export(
    exports: Informer<InternalServiceExport>,
    slices: Informer<EndpointSliceExport>,
  ): Promise<void> {
    for (const [service, addresses] of this.exports) {
      const [namespace = "", name = ""] = service.split("/");
      const current = exports.store.get(objectKey(this.#namespace, `${namespace}-${name}`));
      if (current === undefined) await this.#exportService(namespace, name);
      // Endpoints wait for the verdict.
      else if (current.status?.conditions?.find((it) => it.type === "Conflict")?.status === "False") {
        await this.#note(INTERNAL_SERVICE_EXPORTS, current, "last-observed-resource-version");
        await this.#exportSlice(service, addresses, slices);
      }
    }
    await this.#unexport(exports, slices);
  }

  async #unexport(
    exports: Informer<InternalServiceExport>,
    slices: Informer<EndpointSliceExport>,
  ): Promise<void> {
    for (const it of slices.store.list())
      if (!this.exports.has(it.spec.ownerServiceReference.namespacedName))
        await this.#client.delete(ENDPOINT_SLICE_EXPORTS, keyIn(it));
    for (const it of exports.store.list())
      if (!this.exports.has(it.spec?.serviceReference.namespacedName ?? ""))
        await this.#client.delete(INTERNAL_SERVICE_EXPORTS, keyIn(it));
  }

  async #exportService(namespace: string, name: string): Promise<void> {
    await this.#client.create(INTERNAL_SERVICE_EXPORTS, {
      metadata: { namespace: this.#namespace, name: `${namespace}-${name}` },
      spec: {
        ports: [{ name: "http", protocol: "TCP", port: this.#port, targetPort: 8080 }],
        serviceReference: { ...this.#referenceTo(namespace, name), kind: "Service" },
      },
    });
  }

  async #exportSlice(
    service: string,
    addresses: readonly string[],
    slices: Informer<EndpointSliceExport>,
  ): Promise<void> {
    const [namespace = "", name = ""] = service.split("/");
    const chosen =
      this.#names.get(service) ?? `${this.cluster}-${namespace}-${name}-slice-${randomUUID().slice(0, 5)}`;
    this.#names.set(service, chosen);
    const current = slices.store.get(objectKey(this.#namespace, chosen));
    const endpoints = addresses.map((it) => ({ addresses: [it] }));
    if (current === undefined)
      await this.#client.create(ENDPOINT_SLICE_EXPORTS, {
        metadata: { namespace: this.#namespace, name: chosen },
        spec: {
          addressType: "IPv4",
          endpoints,
          ports: [{ name: "http", protocol: "TCP", port: 8080 }],
          endpointSliceReference: { ...this.#referenceTo(namespace, `${name}-slice`), kind: "EndpointSlice" },
          ownerServiceReference: { namespace, name, namespacedName: service },
        },
      });
    else if (!sameJson(current.spec.endpoints, endpoints))
      await this.#client.update(ENDPOINT_SLICE_EXPORTS, { ...current, spec: { ...current.spec, endpoints } });
  }

  async #ask(imports: Informer<KubeObject>): Promise<void> {
    for (const service of this.wanted) {
      const [namespace = "", name = ""] = service.split("/");
      const key = objectKey(this.#namespace, `${namespace}-${name}`);
      if (imports.store.get(key) === undefined)
        await this.#client.create(INTERNAL_SERVICE_IMPORTS, {
          metadata: { namespace: this.#namespace, name: `${namespace}-${name}` },
          spec: { serviceImportReference: { ...this.#referenceTo(namespace, name), kind: "ServiceImport" } },
        });
    }
    for (const it of imports.store.list())
      if (![...this.wanted].some((one) => one.replace("/", "-") === it.metadata.name))
        await this.#client.delete(INTERNAL_SERVICE_IMPORTS, keyIn(it));
  }

  async #import(copies: Informer<EndpointSliceExport>): Promise<void> {
    for (const it of copies.store.list()) {
      const { metadata, spec } = it;
      const finalizers = metadata.finalizers ?? [];
      if (metadata.deletionTimestamp !== undefined) {
        this.imported.delete(metadata.name);
        const others = finalizers.filter((one) => one !== HELD);
        if (others.length < finalizers.length)
          await this.#client.update(ENDPOINT_SLICE_IMPORTS, {
            ...it,
            metadata: { ...metadata, finalizers: others },
          });
        continue;
      }
      if (!this.wanted.has(spec.ownerServiceReference.namespacedName)) continue;
      if (!finalizers.includes(HELD)) {
        await this.#client.update(ENDPOINT_SLICE_IMPORTS, {
          ...it,
          metadata: { ...metadata, finalizers: [...finalizers, HELD] },
        });
        continue;
      }
      this.imported.set(
        metadata.name,
        spec.endpoints.flatMap((one) => one.addresses),
      );
      await this.#note(ENDPOINT_SLICE_IMPORTS, it, "last-observed-generation", String(metadata.generation));
    }
  }

  /** What was measured, kept in an annotation so that it is measured once. */
  async #note<T extends KubeObject>(of: Resource<T>, object: T, name: string, value = "1"): Promise<void> {
    const key = `${PREFIX}/${name}`;
    if (object.metadata.annotations?.[key] === value) return;
    const metadata: ObjectMeta = {
      ...object.metadata,
      annotations: { ...object.metadata.annotations, [key]: value },
    };
    await this.#client.update(of, { ...object, metadata });
  }

  #referenceTo(namespace: string, name: string): Omit<ExportedObjectReference, "kind"> {
    return {
      clusterId: this.cluster,
      namespace,
      name,
      namespacedName: `${namespace}/${name}`,
      uid: `uid-of-${name}`,
      resourceVersion: "1",
      generation: 1,
      exportedSince: "2026-01-01T00:00:00Z",
    };
  }
}

function keyIn({ metadata }: KubeObject): ObjectKey {
  return objectKey(metadata.namespace, metadata.name);
}
