import { isObject } from "@fairlead/base/json.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";

/**
 * Objects that a member applies for no hub, whatever the rights of its agent are: those in reserved namespaces, which hold the agent
 * and the cluster's own components, and those that would give others the rights of these. With the rights of cluster-admin this guards
 * against mistakes, and does not stop an attacker (docs/design/trust.md).
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

/**
 * Returns why a manifest is refused; undefined if it is not.
 *
 * @param within - The only namespace in which the Work may have objects; undefined: they may have any scope.
 */
export function refusalOf(candidate: Candidate, within?: string): string | undefined {
  return outside(candidate, within) ?? reserved(candidate) ?? elevation(candidate) ?? interception(candidate);
}

function outside({ kind, namespace, name }: Candidate, within: string | undefined): string | undefined {
  if (within === undefined || namespace === within) return undefined;
  const object = namespace === undefined ? name : `${namespace}/${name}`;
  return `${kind} ${object} is not in namespace ${within}: a ResourcePlacement or an envelope of that namespace places nothing else`;
}

function reserved({ group, kind, namespace, name }: Candidate): string | undefined {
  if (namespace !== undefined && isReserved(namespace))
    return `namespace ${namespace} is reserved: a hub cannot place objects in namespaces that begin with kube- or fleet-`;
  if (group === "" && kind === "Namespace" && isReserved(name))
    return `namespace ${name} is reserved: a hub cannot place namespaces that begin with kube- or fleet-`;
  if (FLEET_GROUPS.includes(group))
    return `${kind} is a kind of the fleet itself (${group}), which a hub cannot place`;
  if (group === "apiextensions.k8s.io" && FLEET_GROUPS.some((it) => name.endsWith(`.${it}`)))
    return `CustomResourceDefinition ${name} defines a kind of the fleet itself, which a hub cannot place`;
  return undefined;
}

export function isReserved(namespace: string): boolean {
  return /^(kube|fleet)-/.test(namespace);
}

/** Roles of the cluster's components and of the agents, and bindings to these and to everybody. */
function elevation({ group, kind, name, object }: Candidate): string | undefined {
  if (group !== RBAC) return undefined;
  if (/^(system:|fairlead-)/.test(name))
    return `${kind} ${name} belongs to the cluster or to Fairlead: names that begin with system: or fairlead- are reserved`;
  const subjects = Array.isArray(object["subjects"]) ? object["subjects"].filter(isObject) : [];
  const found = subjects.map(reservedSubject).find((it) => it !== undefined);
  return found === undefined ? undefined : `${kind} ${name} gives rights to ${found}`;
}

const ACCOUNT = "system:serviceaccount:";
const ACCOUNTS = "system:serviceaccounts:";

/** An account of a reserved namespace, a component of the cluster or everybody, as whichever kind of subject it is written. */
function reservedSubject({ kind, namespace, name }: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof name !== "string") return undefined;
  const inReserved = (of: unknown): boolean => typeof of === "string" && isReserved(of);
  switch (kind) {
    case "ServiceAccount":
      return inReserved(namespace)
        ? `ServiceAccount ${String(namespace)}/${name}, whose namespace is reserved`
        : undefined;
    case "User":
      if (name.startsWith(ACCOUNT))
        return inReserved(name.slice(ACCOUNT.length).split(":")[0])
          ? `User ${name}, a ServiceAccount whose namespace is reserved`
          : undefined;
      return name.startsWith("system:") ? `User ${name}, who belongs to the cluster` : undefined;
    case "Group":
      if (name.startsWith(ACCOUNTS))
        return inReserved(name.slice(ACCOUNTS.length))
          ? `Group ${name}, the ServiceAccounts of a reserved namespace`
          : undefined;
      return name.startsWith("system:")
        ? `Group ${name}, which is everybody, or belongs to the cluster`
        : undefined;
    default:
      return undefined;
  }
}

/** Groups of the objects by which the agent works in its namespace. */
const AGENT_GROUPS = new Set([
  "*",
  "",
  "apps",
  "batch",
  "coordination.k8s.io",
  "discovery.k8s.io",
  "networking.k8s.io",
  "rbac.authorization.k8s.io",
]);
const ADMISSION = "admissionregistration.k8s.io";
const AGENT_NAMESPACE = { "kubernetes.io/metadata.name": FLEET_SYSTEM_NAMESPACE };

/** What could read or change each object of the agent while it is written. */
function interception({ group, kind, name, object }: Candidate): string | undefined {
  if (group !== ADMISSION) return undefined;
  const intercepting =
    kind === "MutatingAdmissionPolicy" ? [matchOfPolicy(object)] : listOf(object["webhooks"]);
  const found = intercepting.find(interceptsAgent);
  return found === undefined
    ? undefined
    : `${kind} ${name} intercepts objects of namespace ${FLEET_SYSTEM_NAMESPACE}: leave it out by a namespaceSelector, such as kubernetes.io/metadata.name NotIn [${FLEET_SYSTEM_NAMESPACE}]`;
}

function matchOfPolicy({ spec }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const constraints = isObject(spec) && isObject(spec["matchConstraints"]) ? spec["matchConstraints"] : {};
  return { namespaceSelector: constraints["namespaceSelector"], rules: constraints["resourceRules"] };
}

function interceptsAgent({ namespaceSelector, rules }: Readonly<Record<string, unknown>>): boolean {
  const matches = listOf(rules).some(
    ({ apiGroups, scope }) =>
      scope !== "Cluster" && Array.isArray(apiGroups) && apiGroups.some((it) => AGENT_GROUPS.has(String(it))),
  );
  return matches && selectsAgent(namespaceSelector);
}

/** Labels that a namespace may have besides its name are not known: a selector that asks for them does not select it. */
function selectsAgent(selector: unknown): boolean {
  if (!isObject(selector)) return true;
  try {
    return matcherOf(selector)(AGENT_NAMESPACE);
  } catch {
    // The server refuses it.
    return false;
  }
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
