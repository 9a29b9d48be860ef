import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import {
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  MULTI_CLUSTER_SERVICES,
  type MultiClusterService,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  FLEET_SERVICE_EXPORTS,
  type FleetServiceExport,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { ensureNamespace, type TestFleet, testDeps } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** What the end-to-end tests of fleet-networking do and look at, in the words of its objects. */

export const MEMBERS = ["member-1", "member-2"] as const;
type Member = (typeof MEMBERS)[number];

/** A fake cloud: every LoadBalancer Service has its own address while it exists. */
export function giveAddresses(client: KubeClient): AsyncDisposable {
  const informer = createInformer(client, SERVICES, {}, testDeps("cloud"));
  const stop = new AbortController();
  const given = new Map<string, string>();
  informer.subscribe(({ after }) => {
    if (after?.spec?.type !== "LoadBalancer" || after.status?.loadBalancer?.ingress !== undefined) return;
    const uid = after.metadata.uid ?? "";
    const ip = given.get(uid) ?? `198.51.100.${given.size + 1}`;
    given.set(uid, ip);
    const status = { loadBalancer: { ingress: [{ ip }] } };
    client.mergePatch(SERVICES, keyOf(after), { status }, { subresource: "status" }).catch(() => {});
  });
  informer.start(stop.signal);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await informer[Symbol.asyncDispose]();
    },
  };
}

/** "Type=Status:Reason" of all conditions, sorted: the tests of others compare these and nothing else. */
export function said(conditions: readonly Condition[] | undefined): string[] {
  return (conditions ?? []).map((it) => `${it.type}=${it.status}:${it.reason}`).toSorted();
}

export const ACCEPTED = ["Conflict=False:NoConflictFound", "Valid=True:ServiceIsValid"];
export const REFUSED = ["Conflict=True:ConflictFound", "Valid=True:ServiceIsValid"];
export const FOUND = ["Valid=True:FoundServiceImport"];
const UNKNOWN = ["Valid=Unknown:UnknownServiceImport"];

/** A namespace of a fleet: its objects and their effects. */
export class Scene {
  readonly fleet: TestFleet;
  readonly namespace: string;
  constructor(fleet: TestFleet, namespace: string) {
    this.fleet = fleet;
    this.namespace = namespace;
  }

  static async create(fleet: TestFleet, namespace: string): Promise<Scene> {
    for (const name of MEMBERS) await ensureNamespace(fleet.client(name), namespace);
    return new Scene(fleet, namespace);
  }

  key(name: string): ObjectKey {
    return objectKey(this.namespace, name);
  }

  untilExport(member: Member, expected: readonly string[], name = "app"): Promise<FleetServiceExport> {
    return eventuallyOne(
      this.fleet.client(member),
      FLEET_SERVICE_EXPORTS,
      this.key(name),
      (it) =>
        said(it.status?.conditions).join() === expected.join() &&
        it.status?.conditions?.every((one) => one.observedGeneration === it.metadata.generation) === true,
    );
  }

  async importBy(
    member: Member,
    service = "app",
    more: { readonly name?: string; readonly annotations?: Record<string, string> } = {},
  ): Promise<void> {
    const { name = service, annotations = {} } = more;
    await this.fleet.client(member).create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: this.namespace, name, annotations },
      spec: { serviceImport: { name: service } },
    });
  }

  /** @returns The MultiClusterService once it has an address. */
  untilServed(member: Member, name = "app"): Promise<MultiClusterService> {
    return eventuallyOne(
      this.fleet.client(member),
      MULTI_CLUSTER_SERVICES,
      this.key(name),
      (it) =>
        said(it.status?.conditions).join() === FOUND.join() && it.status?.loadBalancer?.ingress?.length === 1,
    );
  }

  /** Exactly that, as others compare the whole status: without an address, and with no other condition. */
  untilUnknown(member: Member, name = "app"): Promise<MultiClusterService> {
    return eventuallyOne(
      this.fleet.client(member),
      MULTI_CLUSTER_SERVICES,
      this.key(name),
      ({ status }) =>
        said(status?.conditions).join() === UNKNOWN.join() && status?.loadBalancer?.ingress === undefined,
    );
  }

  derivedName(object: MultiClusterService): string {
    return object.metadata.labels?.["networking.fleet.azure.com/derived-service"] ?? "";
  }

  /** Addresses behind a load balancer, as its cluster's proxy would find them. */
  async untilBehind(
    member: Member,
    derived: string,
    addresses: readonly string[],
  ): Promise<readonly EndpointSlice[]> {
    const behind = (slices: readonly EndpointSlice[]): EndpointSlice[] =>
      slices.filter(
        (it) =>
          it.metadata.namespace === "fleet-system" &&
          it.metadata.labels?.["kubernetes.io/service-name"] === derived,
      );
    const found = await eventually(
      this.fleet.client(member),
      ENDPOINT_SLICES,
      (all) =>
        behind(all)
          .flatMap((it) => it.endpoints.flatMap((one) => one.addresses))
          .toSorted()
          .join() === addresses.toSorted().join(),
    );
    return behind(found);
  }

  untilImport(
    until: (status: FleetServiceImport["status"]) => boolean,
    name = "app",
  ): Promise<FleetServiceImport> {
    return eventuallyOne(this.fleet.client("hub"), FLEET_SERVICE_IMPORTS, this.key(name), (it) =>
      until(it.status),
    );
  }
}
