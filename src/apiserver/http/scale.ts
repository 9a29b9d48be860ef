import { isObject } from "#base/json.ts";
import { parseJsonPath } from "../crd/jsonpath.ts";
import type { ApiObject, ResourceDefinition } from "../registry/types.ts";
import { invalid } from "../status.ts";

/** The subresource `scale`: `autoscaling/v1 Scale` drawn from an object, and written back into it. */

export const SCALE_KIND = "Scale";
export const SCALE_VERSION = "autoscaling/v1";

type ScalePaths = NonNullable<ResourceDefinition["scale"]>;

export function scaleOf(object: ApiObject, paths: ScalePaths): ApiObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const replicas = read(object, paths.specReplicasPath);
  const current = read(object, paths.statusReplicasPath);
  const selector = paths.labelSelectorPath === undefined ? undefined : read(object, paths.labelSelectorPath);
  return {
    kind: SCALE_KIND,
    apiVersion: SCALE_VERSION,
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
    },
    spec: typeof replicas === "number" ? { replicas } : {},
    status: {
      replicas: typeof current === "number" ? current : 0,
      ...(selector === undefined ? {} : { selector: selectorText(selector) }),
    },
  };
}

function read(object: ApiObject, path: string): unknown {
  return parseJsonPath(path)(object)[0];
}

/** Built-in kinds hold a LabelSelector, custom ones a string. */
function selectorText(selector: unknown): string {
  if (typeof selector === "string") return selector;
  const labels = isObject(selector) ? selector["matchLabels"] : undefined;
  if (!isObject(labels)) return "";
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${String(value)}`)
    .toSorted()
    .join(",");
}

/** Sets the replicas of `object` to those of `scale`, which is checked first. */
export function setScale(object: ApiObject, scale: ApiObject, paths: ScalePaths): void {
  const spec = scale["spec"];
  const replicas = isObject(spec) ? (spec["replicas"] ?? 0) : 0;
  if (typeof replicas !== "number" || !Number.isInteger(replicas) || replicas < 0) {
    throw invalid("autoscaling", SCALE_KIND, object.metadata.name, [
      {
        type: "FieldValueInvalid",
        field: "spec.replicas",
        message: `Invalid value: ${JSON.stringify(replicas)}: must be a non-negative integer`,
      },
    ]);
  }
  const steps = paths.specReplicasPath.split(".").filter((it) => it !== "");
  let at: Record<string, unknown> = object;
  for (const step of steps.slice(0, -1)) {
    const next = at[step];
    if (isObject(next)) at = next;
    else {
      const made: Record<string, unknown> = {};
      at[step] = made;
      at = made;
    }
  }
  at[steps.at(-1) ?? "replicas"] = replicas;
  if (scale.metadata.resourceVersion === undefined) delete object.metadata.resourceVersion;
  else object.metadata.resourceVersion = scale.metadata.resourceVersion;
}
