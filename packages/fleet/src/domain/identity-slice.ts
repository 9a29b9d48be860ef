import { byText } from "@fairlead/base/text.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { isSpecialPurpose } from "@fairlead/base/netaddr/special-purpose.ts";
import { shortHash } from "#api/fairlead.dev/cluster-names.ts";
import {
  type IdentityNode,
  type IdentityPod,
  type IdentitySlice,
  MAX_IDENTITY_ADDRESSES,
  MAX_IDENTITY_NODES,
  MAX_IDENTITY_POD_LABELS,
  MAX_IDENTITY_PODS,
  MAX_IDENTITY_PORTS,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { isReservedNamespace } from "#api/networking.fleet.azure.com/names.ts";
import {
  isDnsLabel,
  isLabelValue,
  isPortName,
  isPortNumber,
  isQualifiedName,
  isSubdomain,
  shown,
} from "./formats.ts";

/** Contents of IdentitySlices. Pure. */

type Spec = IdentitySlice["spec"];

/** More than any pod or node has; each is matched with each selector. */
const MAX_LABELS = 256;

/** Name of a slice in the view and in `fleet-system`; never the same for slices of two members. */
export function identitySliceName(cluster: string, name: string): string {
  return `${cluster}-${shortHash(`${cluster}/${name}`, 16)}`;
}

/** Returns the fault of a slice that makes all of it unusable; undefined if it is valid. */
export function findIdentityProblem(spec: Spec, owner: string): string | undefined {
  const { cluster, type, namespace = "", labels } = spec;
  if (cluster !== owner) return `spec.cluster is ${shown(cluster)}, but this is the mailbox of ${owner}`;
  if (type === "Nodes") return findNamedProblem("spec.nodes", spec.nodes, MAX_IDENTITY_NODES);
  if (type === "Addresses") return findAddressesProblem(spec);
  if (!isDnsLabel(namespace)) return `spec.namespace ${shown(namespace)} is not a DNS label`;
  if (isReservedNamespace(namespace))
    return `namespace ${namespace} is reserved, nothing of it is shown to other members`;
  const wrong = findLabelProblem("spec.labels", labels);
  return wrong ?? (type === "Namespace" ? undefined : findPodsProblem(spec));
}

/** Nothing but addresses. */
function findAddressesProblem({ addresses = [], ...spec }: Spec): string | undefined {
  if (addresses.length > MAX_IDENTITY_ADDRESSES)
    return `spec.addresses: at most ${MAX_IDENTITY_ADDRESSES} are allowed`;
  const more = (["namespace", "labels", "serviceAccount", "ports", "pods", "nodes"] as const).find(
    (it) => spec[it] !== undefined,
  );
  return more === undefined ? undefined : `spec.${more} is set, which slices of addresses do not have`;
}

function findPodsProblem({ ports = [], pods, serviceAccount = "default" }: Spec): string | undefined {
  if (ports.length > MAX_IDENTITY_PORTS) return `spec.ports: at most ${MAX_IDENTITY_PORTS} are allowed`;
  if (!isSubdomain(serviceAccount)) return `spec.serviceAccount ${shown(serviceAccount)} is not a name`;
  const port = ports.find((it) => !isPortName(it.name) || !isPortNumber(it.port));
  if (port !== undefined) return `spec.ports: ${shown(port.name)} is not the name of a port`;
  const absent = (pods ?? []).flatMap((it) => it.without ?? []).find((it) => !isQualifiedName(it));
  if (absent !== undefined) return `spec.pods[].without: ${shown(absent)} is not the key of a label`;
  return findNamedProblem("spec.pods", pods, MAX_IDENTITY_PODS);
}

/** All labels of a pod of a slice. */
export function labelsOfPod(
  { labels }: Spec,
  { labels: other, without = [] }: IdentityPod,
): Record<string, string> {
  const all = { ...labels, ...other };
  for (const key of without) delete all[key];
  return all;
}

/** How a pod with these labels is written in a slice; undefined: the difference is too large. */
export function differenceOf(
  shared: Readonly<Record<string, string>>,
  labels: Readonly<Record<string, string>>,
): Pick<IdentityPod, "labels" | "without"> | undefined {
  const added = Object.entries(labels).filter(
    ([key, value]) => !Object.hasOwn(shared, key) || shared[key] !== value,
  );
  const without = Object.keys(shared).filter((key) => !Object.hasOwn(labels, key));
  if (Math.max(added.length, without.length) > MAX_IDENTITY_POD_LABELS) return undefined;
  return {
    ...(added.length === 0 ? {} : { labels: Object.fromEntries(added.toSorted(([a], [b]) => byText(a, b))) }),
    ...(without.length === 0 ? {} : { without: without.toSorted(byText) }),
  };
}

function findNamedProblem(
  field: string,
  all: readonly (IdentityPod | IdentityNode)[] = [],
  most: number,
): string | undefined {
  if (all.length > most) return `${field}: at most ${most} are allowed`;
  for (const { name, labels } of all) {
    if (!isSubdomain(name)) return `${field}: ${shown(name)} is not the name of an object`;
    const wrong = findLabelProblem(`${field}[].labels`, labels);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function findLabelProblem(field: string, labels: Readonly<Record<string, string>> = {}): string | undefined {
  const all = Object.entries(labels);
  if (all.length > MAX_LABELS) return `${field}: at most ${MAX_LABELS} labels are allowed, not ${all.length}`;
  const bad = all.find(([key, value]) => !isQualifiedName(key) || !isLabelValue(value));
  return bad === undefined ? undefined : `${field}: ${shown(bad.join("="))} is not a label`;
}

/** Why an address is not one of this member's. */
export type AddressCheck = (address: string) => string | undefined;

/** Why an address cannot be that of a pod or node of any member. */
export function findAddressProblem(text: string): string | undefined {
  const address = tryParseAddress(text);
  if (address === undefined) return `${shown(text)} is not an IP address`;
  return isSpecialPurpose(address) ? `${text} is in a special-purpose range` : undefined;
}

/**
 * The pods, nodes and addresses that belong to the member. Others are left out, so that one of them does not affect the rest.
 */
export function withOwnAddresses(
  spec: Spec,
  check: AddressCheck,
): { readonly spec: Spec; readonly problem?: string } {
  let problem: string | undefined;
  const isOwn = ({
    name,
    addresses,
  }: {
    readonly name: string;
    readonly addresses: readonly string[];
  }): boolean => {
    for (const it of addresses) {
      const found = findAddressProblem(it) ?? check(it);
      if (found === undefined) continue;
      problem ??= `${spec.namespace === undefined ? "" : `${spec.namespace}/`}${name}: ${found}`;
      return false;
    }
    return true;
  };
  const { pods, nodes, addresses } = spec;
  const kept = {
    ...spec,
    ...(pods === undefined ? {} : { pods: pods.filter(isOwn) }),
    ...(nodes === undefined ? {} : { nodes: nodes.filter(isOwn) }),
    ...(addresses === undefined
      ? {}
      : { addresses: addresses.filter((it) => isOwn({ name: "addresses", addresses: [it] })) }),
  };
  return problem === undefined ? { spec } : { spec: kept, problem };
}
