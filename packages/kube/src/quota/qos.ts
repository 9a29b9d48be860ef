import { type Fields, fieldsAt, itemsAt } from "@fairlead/base/fields.ts";
import { parseQuantity } from "#api/meta/quantity.ts";

type QosClass = "Guaranteed" | "Burstable" | "BestEffort";

const RESOURCES = ["cpu", "memory"];

/**
 * How a pod is treated when its node runs short: by whether its containers ask for all that they may use.
 * Source: k8s.io/kubernetes, pkg/apis/core/v1/helper/qos.
 */
export function qosClassOf(spec: Fields | undefined): QosClass {
  const own = fieldsAt(spec, "resources");
  // Resources of the pod as a whole replace those of the containers (KEP-2837).
  const containers =
    own === undefined
      ? [...itemsAt(spec, "containers"), ...itemsAt(spec, "initContainers")]
      : [{ resources: own }];
  const amounts = containers.map((it) => fieldsAt(it, "resources"));
  const isUsed = amounts.some((it) => sizesOf(it, "requests").size + sizesOf(it, "limits").size > 0);
  if (!isUsed) return "BestEffort";
  return amounts.every(isGuaranteed) ? "Guaranteed" : "Burstable";
}

function isGuaranteed(resources: Fields | undefined): boolean {
  const requests = sizesOf(resources, "requests");
  const limits = sizesOf(resources, "limits");
  return RESOURCES.every((it) => limits.has(it) && (requests.get(it) ?? limits.get(it)) === limits.get(it));
}

function sizesOf(resources: Fields | undefined, key: "requests" | "limits"): ReadonlyMap<string, bigint> {
  const sizes = new Map<string, bigint>();
  for (const resource of RESOURCES) {
    const size = parseQuantity(fieldsAt(resources, key)?.[resource]);
    if (size !== undefined && size > 0n) sizes.set(resource, size);
  }
  return sizes;
}
