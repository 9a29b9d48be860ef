import { defined } from "@fairlead/base/defined.ts";
import { isObject } from "@fairlead/base/json.ts";
import { define } from "#builtin/define.ts";
import { parseJsonPath } from "#crd/jsonpath.ts";
import { invalidValue } from "#registry/metadata.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { apiVersionOf } from "#registry/write.ts";
import { internalError, invalid } from "#status.ts";
import type { PatchedPart } from "./patch.ts";

/** The subresource `scale`: `autoscaling/v1 Scale` drawn from an object, and written back into it. */

export const SCALE_KIND = "Scale";
const SCALE_VERSION = "autoscaling/v1";
const SCALE = define(SCALE_VERSION, SCALE_KIND, { plural: "scales" });

type ScalePaths = NonNullable<ResourceDefinition["scale"]>;

/**
 * The Scale that a GET answers with.
 *
 * @throws {StatusError} 500 where a custom object does not say how many replicas it wants.
 */
export function readScale({ isCustom }: ResourceDefinition, object: ApiObject, paths: ScalePaths): ApiObject {
  if (isCustom && typeof read(object, paths.specReplicasPath) !== "number") {
    throw internalError(`the spec replicas field ${JSON.stringify(paths.specReplicasPath)} does not exist`);
  }
  return scaleOf(object, paths);
}

function scaleOf(object: ApiObject, paths: ScalePaths): ApiObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const replicas = read(object, paths.specReplicasPath);
  const current = read(object, paths.statusReplicasPath);
  const selector = paths.labelSelectorPath === undefined ? undefined : read(object, paths.labelSelectorPath);
  return {
    kind: SCALE_KIND,
    apiVersion: SCALE_VERSION,
    metadata: {
      name,
      ...defined({ namespace, uid, resourceVersion, creationTimestamp }),
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

/** The replicas that `scale` asks for. */
function wantedReplicas({ spec }: ApiObject): unknown {
  return isObject(spec) ? (spec["replicas"] ?? 0) : 0;
}

/** @throws {StatusError} 422 for fewer replicas than none of an object of `definition`. */
function checkReplicas(scale: ApiObject, definition: ResourceDefinition, paths: ScalePaths): void {
  const replicas = wantedReplicas(scale);
  const { name } = scale.metadata;
  if (Number(replicas) >= 0) return;
  if (definition.isCustom) {
    const wrong = invalidValue(paths.specReplicasPath, replicas, "should be a non-negative integer");
    throw invalid(definition.group, definition.kind, name, [wrong]);
  }
  const wrong = invalidValue("spec.replicas", replicas, "must be greater than or equal to 0");
  throw invalid("autoscaling", SCALE_KIND, name, [wrong]);
}

function setReplicas(object: ApiObject, replicas: unknown, { specReplicasPath }: ScalePaths): void {
  const steps = specReplicasPath.split(".").filter((it) => it !== "");
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
}

/** Scale as what stands for a `definition` that has replicas: admission and patches see it alone. */
export function scalePart(definition: ResourceDefinition, paths: ScalePaths): PatchedPart {
  const { group, version, kind } = SCALE;
  return {
    definition: SCALE,
    kind: { group, version, kind },
    of: (object) => scaleOf(object, paths),
    check: (scale) => checkReplicas(scale, definition, paths),
    set: (object, scale) => {
      checkReplicas(scale, definition, paths);
      setReplicas(object, wantedReplicas(scale), paths);
      const { resourceVersion, uid } = scale.metadata;
      if (resourceVersion === undefined) delete object.metadata.resourceVersion;
      else object.metadata.resourceVersion = resourceVersion;
      if (uid !== undefined) object.metadata.uid = uid;
    },
    configurationOf: (scale) => {
      const { name, namespace, uid, resourceVersion } = scale.metadata;
      const metadata = {
        ...defined({ name, namespace, uid, resourceVersion }),
      };
      const of = { apiVersion: apiVersionOf(definition), kind: definition.kind };
      const config = { ...of, metadata } as ApiObject;
      setReplicas(config, wantedReplicas(scale), paths);
      return config;
    },
  };
}
