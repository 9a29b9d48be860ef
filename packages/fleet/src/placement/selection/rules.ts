import { FleetError } from "@fairlead/base/errors.ts";
import { MAX_NESTING, nestsDeeperThan, own } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import type { KindName } from "./kinds.ts";

/** What is never placed, whatever selects it: what KubeFleet does not place, and what only the hub itself has. */

export interface RuleOptions {
  /** `GROUP`, `GROUP/VERSION` or `GROUP/VERSION/KIND,KIND`, separated by semicolons. The core group has no name: `/v1/Secret`. */
  readonly skippedApis?: string;
  /** As `skippedApis`: nothing else is placed. Excludes `skippedApis`. */
  readonly allowedApis?: string;
  readonly skippedNamespaces?: readonly string[];
  /** Whether the hub runs workloads: claims of its own pods are then not placed. */
  readonly runsWorkloads?: boolean;
}

export interface PlacementRules {
  isKindPlaced(of: KindName): boolean;
  isNamespacePlaced(name: string): boolean;
  /** For what depends on the object alone. Its kind and namespace are those that may be placed. */
  isObjectPlaced(object: KubeObject): boolean;
}

/** All of a group; undefined, or the kinds of it that are meant. */
const NEVER: Readonly<Record<string, ReadonlySet<string> | "all">> = {
  "cluster.kubernetes-fleet.io": "all",
  "events.k8s.io": "all",
  "coordination.k8s.io": "all",
  "metrics.k8s.io": "all",
  // Events in the core group are those of events.k8s.io.
  "": new Set(["Pod", "Node", "Event"]),
  "networking.fleet.azure.com": new Set([
    "ServiceImport",
    "TrafficManagerProfile",
    "TrafficManagerBackend",
    // Between the hub and one member: they change with every endpoint, and are not to be watched for placements.
    "InternalServiceExport",
    "InternalServiceImport",
    "EndpointSliceExport",
    "EndpointSliceImport",
  ]),
  // Of the hub itself, most of them in mailboxes.
  "fairlead.dev": "all",
};
export const PLACEMENT_GROUP = "placement.kubernetes-fleet.io";
export const ENVELOPE_KINDS = new Set(["ClusterResourceEnvelope", "ResourceEnvelope"]);

export function placementRules(options: RuleOptions = {}): PlacementRules {
  const { skippedApis = "", allowedApis = "", skippedNamespaces = [], runsWorkloads = false } = options;
  if (skippedApis !== "" && allowedApis !== "")
    throw new FleetError(
      "OPTION_INVALID",
      "skipped and allowed APIs of placements exclude each other: set one of them",
    );
  const isSkipped = apiMatcher(skippedApis);
  const isAllowed = allowedApis === "" ? (): boolean => true : apiMatcher(allowedApis);
  const skipped = new Set(skippedNamespaces);
  return {
    isKindPlaced: (of) => !isNeverPlaced(of) && !isSkipped(of) && (isNamespace(of) || isAllowed(of)),
    isNamespacePlaced: (name) => !isReservedForPlacement(name) && !skipped.has(name),
    isObjectPlaced: (it) =>
      isOrdinary(it) &&
      !nestsDeeperThan(it, MAX_NESTING) &&
      !(runsWorkloads && it.kind === "PersistentVolumeClaim"),
  };
}

function isNeverPlaced({ group, kind }: KindName): boolean {
  if (group === PLACEMENT_GROUP) return !ENVELOPE_KINDS.has(kind);
  const never = own(NEVER, group);
  return never === "all" || never?.has(kind) === true;
}

export function isNamespace({ group, kind }: Pick<KindName, "group" | "kind">): boolean {
  return group === "" && kind === "Namespace";
}

function isReservedForPlacement(namespace: string): boolean {
  return namespace === "default" || namespace.startsWith("kube-") || namespace.startsWith("fleet-");
}

/** Made by a user, not by the API server or a controller for another object. */
function isOrdinary(object: KubeObject): boolean {
  const { name, deletionTimestamp, ownerReferences = [], labels = {} } = object.metadata;
  if (deletionTimestamp !== undefined) return false;
  // Where the hub's cluster is a member, too: its agent makes imports, and Services with their addresses, in any namespace.
  if (Object.hasOwn(labels, MANAGED_BY_LABEL)) return false;
  switch (`${object.apiVersion}/${object.kind}`) {
    case "apps/v1/ReplicaSet":
    case "apps/v1/ControllerRevision":
      return ownerReferences.length === 0;
    case "v1/ConfigMap":
      return name !== "kube-root-ca.crt";
    case "v1/ServiceAccount":
      return name !== "default";
    case "v1/Secret":
      return !("type" in object && object.type === "kubernetes.io/service-account-token");
    case "discovery.k8s.io/v1/EndpointSlice":
      return !Object.hasOwn(labels, "endpointslice.kubernetes.io/managed-by");
    default:
      return true;
  }
}

type ApiMatcher = (of: KindName) => boolean;

function apiMatcher(text: string): ApiMatcher {
  const terms = text
    .split(";")
    .map((it) => it.trim())
    .filter((it) => it !== "")
    .map((it) => parseApi(it, text));
  return (of) => terms.some((matches) => matches(of));
}

function parseApi(term: string, text: string): ApiMatcher {
  const [group = "", version, kinds, ...more] = term.split("/").map((it) => it.trim());
  if (more.length > 0 || version === "" || kinds === "")
    throw new FleetError(
      "OPTION_INVALID",
      `APIs of placements "${text}": cannot read "${term}"; expected GROUP, GROUP/VERSION or GROUP/VERSION/KIND,KIND`,
    );
  const named = kinds === undefined ? undefined : new Set(kinds.split(",").map((it) => it.trim()));
  return (of) =>
    of.group === group &&
    (version === undefined || of.version === version) &&
    (named === undefined || named.has(of.kind));
}
