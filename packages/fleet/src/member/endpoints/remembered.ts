import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type ObjectKey, keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { GLOBAL_SERVICE_LABEL } from "#api/fairlead.dev/names.ts";
import { readinessOfEndpoints } from "#domain/eligible.ts";
import { isImported, serviceOfLocalSlice, sourceNameOf } from "../informers.ts";
import type { KnownEndpoints } from "../probes/targets.ts";
import type { Session } from "../session.ts";
import type { IsAlive } from "./choice.ts";

/** All slices that the clients of one Service are sent to: an index of local slices, and a key in it. */
interface Group {
  readonly index: "service" | "importedService" | "balancer";
  readonly service: ObjectKey;
}

/**
 * The slices of other clusters that this member's predecessor imported, while the hub says nothing of them. They are all that is known of
 * the endpoints: what probes leave out of them is put back from here.
 */
export class RememberedSlices {
  readonly #here: Pick<Session["here"], "slices">;
  readonly #byName: ReadonlyMap<ObjectKey, readonly EndpointSlice[]>;
  readonly #byCluster: ReadonlyMap<string, readonly EndpointSlice[]>;
  readonly #byGroup: ReadonlyMap<string, readonly EndpointSlice[]>;

  constructor({
    here,
    cluster,
  }: Pick<Session, "cluster"> & { readonly here: Pick<Session["here"], "slices"> }) {
    this.#here = here;
    const all = [...here.slices.store.list()].filter((it) => isImported(it) && sourceOf(it) !== cluster);
    this.#byName = Map.groupBy(all, nameOf);
    this.#byCluster = Map.groupBy(all, sourceOf);
    this.#byGroup = Map.groupBy(all, (it) => textOf(groupOf(it)));
  }

  /** For probes. */
  get endpoints(): KnownEndpoints {
    return {
      clusters: () => [...this.#byCluster.keys()].filter((it) => it !== ""),
      slicesOf: (cluster) =>
        (this.#byCluster.get(cluster) ?? []).map(({ endpoints, ports }) => ({
          spec: { endpoints, ...defined({ ports }) },
        })),
    };
  }

  /** Names of the slices that may change with one of a cluster: a Service keeps its last endpoints. */
  namesWith(cluster: string): readonly ObjectKey[] {
    const groups = new Set((this.#byCluster.get(cluster) ?? []).map((it) => textOf(groupOf(it))));
    return this.#namesIn(groups);
  }

  /** Names of the slices that may change with one of this cluster. */
  namesBeside(slice: EndpointSlice): readonly ObjectKey[] {
    const [service] = serviceOfLocalSlice(slice);
    const group = service === undefined ? groupOf(slice) : { index: "service" as const, service };
    return this.#namesIn([textOf(group)]);
  }

  #namesIn(groups: Iterable<string>): readonly ObjectKey[] {
    const slices = Iterator.from(groups).flatMap((it) => this.#byGroup.get(it) ?? []);
    return [...new Set(slices.map(nameOf))];
  }

  /** The slices of a name that are there and have other endpoints than they should. */
  changed(name: ObjectKey, isAlive: IsAlive): readonly Applied<EndpointSlice>[] {
    return (this.#byName.get(name) ?? []).flatMap((slice) => {
      const current = this.#here.slices.store.get(keyOf(slice));
      if (current?.metadata.uid !== slice.metadata.uid) return [];
      const endpoints = this.#endpointsOf(slice, isAlive);
      const isSame = sameJson(
        endpoints.map((it) => it.addresses),
        current?.endpoints.map((it) => it.addresses),
      );
      return isSame ? [] : [describe(slice, endpoints)];
    });
  }

  #endpointsOf(slice: EndpointSlice, isAlive: IsAlive): EndpointSlice["endpoints"] {
    const cluster = sourceOf(slice);
    const alive = slice.endpoints.filter((it) => isAlive(cluster, it.addresses));
    const isWhole = alive.length === slice.endpoints.length || !this.#isServed(slice, isAlive);
    return isWhole ? slice.endpoints : alive;
  }

  /** Whether an endpoint of the same family is left for clients: doubt never takes the last ones away. */
  #isServed(slice: EndpointSlice, isAlive: IsAlive): boolean {
    const group = groupOf(slice);
    const remembered = this.#byGroup.get(textOf(group)) ?? [];
    const isKnown = new Set(remembered.map((it) => keyOf(it)));
    const isUsable = (it: EndpointSlice, answers: (addresses: readonly string[]) => boolean): boolean =>
      it.addressType === slice.addressType && readinessOfEndpoints(it.endpoints, answers) !== "none";
    if (remembered.some((it) => isUsable(it, (addresses) => isAlive(sourceOf(it), addresses)))) return true;
    for (const it of this.#here.slices.store.byIndex(group.index, group.service))
      if (!isKnown.has(keyOf(it)) && isUsable(it, () => true)) return true;
    return false;
  }
}

function sourceOf({ metadata }: EndpointSlice): string {
  return metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] ?? "";
}

function nameOf(slice: EndpointSlice): ObjectKey {
  return objectKey(undefined, sourceNameOf(slice));
}

function groupOf({ metadata: { namespace, labels = {} } }: EndpointSlice): Group {
  const of = (index: Group["index"], name: string | undefined): Group | undefined =>
    name === undefined ? undefined : { index, service: objectKey(namespace, name) };
  return (
    of("service", labels[GLOBAL_SERVICE_LABEL]) ??
    of("importedService", labels[MCS_SERVICE_NAME_LABEL]) ?? {
      index: "balancer",
      service: objectKey(namespace, labels[SERVICE_NAME_LABEL] ?? ""),
    }
  );
}

function textOf({ index, service }: Group): string {
  return `${index} ${service}`;
}

/** All that this member owns of it. */
function describe(
  { metadata, addressType, ports }: EndpointSlice,
  endpoints: EndpointSlice["endpoints"],
): Applied<EndpointSlice> {
  const { namespace = "", name, labels, annotations, ownerReferences } = metadata;
  return {
    metadata: { namespace, name, ...defined({ labels, annotations, ownerReferences }) },
    addressType,
    endpoints,
    ...defined({ ports }),
  };
}
