import { isObject } from "@fairlead/base/json.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";

/** Whether what was applied works, as the status of the object shows. "NotTrackable": the status of this kind shows nothing. */
export type Availability = "Available" | "ManifestNotAvailableYet" | "NotTrackable";

type Fields = Readonly<Record<string, unknown>>;
interface Observed {
  readonly spec: Fields;
  readonly status: Fields;
  readonly generation: number;
}
type Rule = (object: Observed) => Availability;

/** Kinds without a status that could say more: they work as soon as they exist. */
const AT_ONCE: readonly string[] = [
  "/Namespace",
  "/Secret",
  "/ConfigMap",
  "/ServiceAccount",
  "/LimitRange",
  "/ResourceQuota",
  "rbac.authorization.k8s.io/Role",
  "rbac.authorization.k8s.io/ClusterRole",
  "rbac.authorization.k8s.io/RoleBinding",
  "rbac.authorization.k8s.io/ClusterRoleBinding",
  "networking.k8s.io/NetworkPolicy",
  "networking.k8s.io/IngressClass",
  "storage.k8s.io/CSIDriver",
  "storage.k8s.io/CSINode",
  "storage.k8s.io/CSIStorageCapacity",
  "storage.k8s.io/StorageClass",
  "apps/ControllerRevision",
  "scheduling.k8s.io/PriorityClass",
];

const RULES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...AT_ONCE.map((kind): [string, Rule] => [kind, () => "Available"]),
  ["apps/Deployment", deployment],
  ["apps/StatefulSet", statefulSet],
  ["apps/DaemonSet", daemonSet],
  ["/Service", service],
  ["apiextensions.k8s.io/CustomResourceDefinition", definition],
  ["policy/PodDisruptionBudget", disruptionBudget],
  // KubeFleet waits for these as for any kind that it does not know.
  ["networking.fleet.azure.com/ServiceExport", serviceExport],
  ["multicluster.x-k8s.io/ServiceExport", serviceExport],
]);

export function availabilityOf(
  { group, kind }: { readonly group: string; readonly kind: string },
  object: KubeObject,
): Availability {
  const { spec, status } = object as { spec?: unknown; status?: unknown };
  const rule = RULES.get(`${group}/${kind}`);
  if (rule === undefined) return "NotTrackable";
  const { generation = 0 } = object.metadata;
  return rule({ spec: fields(spec), status: fields(status), generation });
}

function deployment({ spec, status, generation }: Observed): Availability {
  const desired = numberOr(spec["replicas"], 1);
  return when(
    status["observedGeneration"] === generation &&
      numberOr(status["availableReplicas"], 0) === desired &&
      numberOr(status["updatedReplicas"], 0) === desired &&
      numberOr(status["unavailableReplicas"], 0) === 0,
  );
}

function statefulSet({ spec, status, generation }: Observed): Availability {
  return when(
    status["observedGeneration"] === generation &&
      numberOr(status["availableReplicas"], 0) === numberOr(spec["replicas"], 1) &&
      numberOr(status["currentReplicas"], 0) === numberOr(status["updatedReplicas"], 0) &&
      status["currentRevision"] === status["updateRevision"],
  );
}

function daemonSet({ status, generation }: Observed): Availability {
  return when(
    status["observedGeneration"] === generation &&
      numberOr(status["numberAvailable"], 0) === numberOr(status["desiredNumberScheduled"], 0) &&
      numberOr(status["currentNumberScheduled"], 0) === numberOr(status["updatedNumberScheduled"], 0),
  );
}

function service({ spec, status }: Observed): Availability {
  switch (spec["type"] ?? "ClusterIP") {
    case "ClusterIP":
    case "NodePort":
      return when(hasText(spec["clusterIP"]));
    case "LoadBalancer": {
      const ingress = fields(status["loadBalancer"])["ingress"];
      const all = Array.isArray(ingress) ? ingress.map(fields) : [];
      return when(all.some((it) => hasText(it["ip"]) || hasText(it["hostname"])));
    }
    default:
      return "NotTrackable";
  }
}

function definition({ status }: Observed): Availability {
  const conditions = conditionsOf(status);
  return when(isConditionTrue(conditions, "Established") && isConditionTrue(conditions, "NamesAccepted"));
}

function disruptionBudget({ status, generation }: Observed): Availability {
  const areCurrent = conditionsOf(status).every((it) => (it.observedGeneration ?? generation) === generation);
  return when(status["observedGeneration"] === generation && areCurrent);
}

/** Without the condition, nothing exports services in the member, or has looked at this one. */
function serviceExport({ status }: Observed): Availability {
  const valid = conditionsOf(status).find((it) => it.type === "Valid");
  return valid === undefined ? "NotTrackable" : when(valid.status === "True");
}

function when(isAvailable: boolean): Availability {
  return isAvailable ? "Available" : "ManifestNotAvailableYet";
}

/** Statuses are text of others: what has another form than its kind says counts as absent. */
function fields(value: unknown): Fields {
  return isObject(value) ? value : {};
}
function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}
function hasText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
function conditionsOf(status: Fields): readonly Condition[] {
  const conditions = status["conditions"];
  return Array.isArray(conditions) ? (conditions.filter(isObject) as unknown as Condition[]) : [];
}
