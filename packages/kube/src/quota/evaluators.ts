import { type Fields, fieldsAt, itemsAt, textAt } from "@fairlead/base/fields.ts";
import { count } from "./amounts.ts";
import { claimEvaluator } from "./claims.ts";
import { podEvaluator } from "./pods.ts";
import type { Evaluator, GroupResource } from "./types.ts";

/** The usage of objects in a quota. Source: k8s.io/kubernetes, pkg/quota/v1/evaluator/core. */

const POD_RESOURCES = new Set([
  "pods",
  ...["cpu", "memory", "ephemeral-storage"].flatMap((it) => [it, `requests.${it}`, `limits.${it}`]),
]);
const SERVICE_RESOURCES = new Set(["services", "services.nodeports", "services.loadbalancers"]);
const CLAIM_RESOURCE =
  /(?:^|\.storageclass\.storage\.k8s\.io\/)(?:persistentvolumeclaims|requests\.storage)$/;
/** Names from before `count/`. */
const OTHER_NAMES = new Set(["configmaps", "resourcequotas", "replicationcontrollers", "secrets"]);

/** The resource whose objects use `name`, a resource of a quota; undefined if nothing uses it. */
export function usersOf(name: string): GroupResource | undefined {
  if (name.startsWith("count/")) return countedBy(name.slice("count/".length));
  if (CLAIM_RESOURCE.test(name)) return core("persistentvolumeclaims");
  if (POD_RESOURCES.has(name) || isHugePages(name) || isExtended(name)) return core("pods");
  if (SERVICE_RESOURCES.has(name)) return core("services");
  return OTHER_NAMES.has(name) ? core(name) : undefined;
}

function core(plural: string): GroupResource {
  return { group: "", plural };
}

/** "deployments.apps"; Events are never counted. */
function countedBy(name: string): GroupResource | undefined {
  const [plural = "", ...group] = name.split(".");
  return plural === "events" && ["", "events.k8s.io"].includes(group.join("."))
    ? undefined
    : { group: group.join("."), plural };
}

function isHugePages(name: string): boolean {
  return /^(?:requests\.)?hugepages-/.test(name);
}

/** Of such as `example.com/gpu` there is no more to ask for than there is, so that only requests are limited. */
function isExtended(name: string): boolean {
  return (
    /^requests\..*\//.test(name) &&
    (!name.includes("kubernetes.io/") || name.startsWith("requests.deviceclass.resource.kubernetes.io/"))
  );
}

export function evaluatorOf(resource: GroupResource): Evaluator {
  const { group, plural } = resource;
  if (group !== "") return counting(`count/${plural}.${group}`);
  switch (plural) {
    case "pods":
      return podEvaluator;
    case "services":
      return serviceEvaluator;
    case "persistentvolumeclaims":
      return claimEvaluator;
    default:
      return OTHER_NAMES.has(plural) ? counting(`count/${plural}`, plural) : counting(`count/${plural}`);
  }
}

function counting(...names: readonly string[]): Evaluator {
  const usage = new Map(names.map((it) => [it, count(1)]));
  return {
    handles: ({ operation, subresource }) => operation === "CREATE" && subresource === "",
    isInScope: () => false,
    usage: () => usage,
  };
}

const serviceEvaluator: Evaluator = {
  handles: ({ operation, subresource }) =>
    subresource === "" && (operation === "CREATE" || operation === "UPDATE"),
  isInScope: () => false,
  usage(service) {
    const spec = fieldsAt(service, "spec");
    return new Map([
      ["count/services", count(1)],
      ["services", count(1)],
      ["services.loadbalancers", count(textAt(spec, "type") === "LoadBalancer" ? 1 : 0)],
      ["services.nodeports", count(nodePortsOf(spec))],
    ]);
  },
};

/** What is meant: the ports themselves may not be allocated yet. */
function nodePortsOf(spec: Fields | undefined): number {
  const ports = itemsAt(spec, "ports");
  const type = textAt(spec, "type");
  if (type === "NodePort") return ports.length;
  if (type !== "LoadBalancer") return 0;
  if (spec?.["allocateLoadBalancerNodePorts"] !== false) return ports.length;
  return ports.filter((it) => (it["nodePort"] ?? 0) !== 0).length;
}
