import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type AddressFamily, familyOfText } from "@fairlead/base/netaddr/address.ts";
import { MCS_SERVICE_NAME_LABEL, type ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { type Participant, type Run, serviceNames } from "./manifests.ts";
import type { ByFamily, Target } from "./probes.ts";

/** What one cluster has of the others. Pure. */

/** In the namespace of the run. */
export interface Imported {
  readonly imports: Iterable<ServiceImport>;
  readonly slices: Iterable<EndpointSlice>;
}

export interface Sight {
  readonly targets: readonly Target[];
  /** Clusters of which something is missing, with what it is. */
  readonly missing: ReadonlyMap<string, string>;
  /** Whether nothing is missing that could still arrive. */
  readonly isComplete: boolean;
}

/** Another participant, and the families that its services have there: an import is complete when it has an endpoint of each. */
export interface Other extends Pick<Participant, "name" | "number"> {
  readonly families: readonly AddressFamily[];
  /** The own addresses of its server pod. */
  readonly pods: ByFamily;
  /** Why it has no server to probe. */
  readonly problem?: string | undefined;
}

/** @param others - The other participants, as seen from the cluster that has imported `found`. */
export function sightOf(
  others: readonly Other[],
  found: Imported,
  { run, zone }: { readonly run: Run; readonly zone: string },
): Sight {
  const imports = new Map([...found.imports].map((it) => [it.metadata.name, it]));
  const slices = Map.groupBy(found.slices, (it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] ?? "");
  const targets: Target[] = [];
  const missing = new Map<string, string>();
  for (const other of others.filter((it) => it.problem === undefined)) {
    const names = serviceNames(other);
    const vips = byFamily(imports.get(names.service)?.spec?.ips ?? []);
    const pods = byFamily((slices.get(names.pods) ?? []).flatMap(readyAddresses));
    const lack = imports.has(names.service)
      ? lackOf(other, { vips, pods })
      : `no ServiceImport ${names.service}`;
    if (lack !== undefined) missing.set(other.name, lack);
    // What is there is probed, whatever is missing.
    if (isEmpty(vips) && isEmpty(pods)) continue;
    const whole = (name: string): string => `${name}.${run.namespace}.svc.${zone}`;
    const inZone = { service: whole(names.service), pods: whole(names.pods) };
    targets.push({ cluster: other.name, pods, vips, names: inZone });
  }
  return {
    targets,
    missing: new Map([...missing, ...problemsOf(others)]),
    isComplete: missing.size === 0,
  };
}

/** What a cluster can probe without services: the pods of the others. */
export function sightOfPods(others: readonly Other[]): Sight {
  const targets = others
    .filter((it) => it.problem === undefined)
    .map(({ name, pods }): Target => ({
      cluster: name,
      pods,
      vips: {},
      names: { service: "", pods: "" },
    }));
  return { targets, missing: problemsOf(others), isComplete: true };
}

function problemsOf(others: readonly Other[]): ReadonlyMap<string, string> {
  return new Map(others.flatMap(({ name, problem }) => (problem === undefined ? [] : [[name, problem]])));
}

function lackOf(other: Other, { vips, pods }: Pick<Target, "vips" | "pods">): string | undefined {
  const names = serviceNames(other);
  if (isEmpty(vips)) return `ServiceImport ${names.service} has no address`;
  const absent = other.families.filter((it) => pods[it] === undefined);
  return absent.length === 0
    ? undefined
    : `no ready ${absent.join(" and ")} endpoint of service ${names.pods}`;
}

function readyAddresses({ addressType, endpoints }: EndpointSlice): readonly string[] {
  if (addressType === "FQDN") return [];
  return (endpoints ?? [])
    .filter((it) => it.conditions?.ready !== false)
    .flatMap((it) => it.addresses.slice(0, 1));
}

/** The first address of each family. */
export function byFamily(addresses: readonly string[]): ByFamily {
  const first = (family: string): string | undefined => addresses.find((it) => familyOfText(it) === family);
  const [v4, v6] = [first("IPv4"), first("IPv6")];
  return { ...(v4 === undefined ? {} : { IPv4: v4 }), ...(v6 === undefined ? {} : { IPv6: v6 }) };
}

function isEmpty(addresses: ByFamily): boolean {
  return Object.keys(addresses).length === 0;
}
