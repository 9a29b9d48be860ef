import { isObject } from "@fairlead/base/json.ts";

/**
 * What a member applies for no hub, whatever the rights of its agent are: objects in reserved namespaces, which hold the agent
 * and the cluster's own components, and objects that would give the hub the rights of these.
 */

export interface Candidate {
  readonly group: string;
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly object: Readonly<Record<string, unknown>>;
}

/** Groups of the kinds by which the fleet itself is managed. */
const FLEET_GROUPS = ["cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io"];
const RBAC = "rbac.authorization.k8s.io";

/** Returns why a manifest is refused; undefined if it is not. */
export function refusalOf(candidate: Candidate): string | undefined {
  const { group, kind, namespace, name } = candidate;
  if (namespace !== undefined && isReserved(namespace))
    return `namespace ${namespace} is reserved: a hub cannot place objects in namespaces that begin with kube- or fleet-`;
  if (group === "" && kind === "Namespace" && isReserved(name))
    return `namespace ${name} is reserved: a hub cannot place namespaces that begin with kube- or fleet-`;
  if (FLEET_GROUPS.includes(group))
    return `${kind} is a kind of the fleet itself (${group}), which a hub cannot place`;
  if (group === "apiextensions.k8s.io" && FLEET_GROUPS.some((it) => name.endsWith(`.${it}`)))
    return `CustomResourceDefinition ${name} defines a kind of the fleet itself, which a hub cannot place`;
  return group === RBAC ? elevation(candidate) : undefined;
}

export function isReserved(namespace: string): boolean {
  return /^(kube|fleet)-/.test(namespace);
}

/** Roles of the cluster's components and of the agents, and bindings to their accounts. */
function elevation({ kind, name, object }: Candidate): string | undefined {
  if (/^(system:|fairlead-)/.test(name))
    return `${kind} ${name} belongs to the cluster or to Fairlead: names that begin with system: or fairlead- are reserved`;
  const subjects = Array.isArray(object["subjects"]) ? object["subjects"].filter(isObject) : [];
  const account = subjects.find(
    (it) =>
      it["kind"] === "ServiceAccount" && typeof it["namespace"] === "string" && isReserved(it["namespace"]),
  );
  return account === undefined
    ? undefined
    : `${kind} ${name} gives rights to ServiceAccount ${String(account["namespace"])}/${String(account["name"])}, whose namespace is reserved`;
}
