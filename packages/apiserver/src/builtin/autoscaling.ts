import { sameJson } from "@fairlead/base/json.ts";
import { checkPathSegment } from "#values/names.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import {
  ensureFields,
  type Fields,
  fieldsAt,
  itemsAt,
  numberAt,
  setDefault,
  textAt,
} from "@fairlead/base/fields.ts";
import { dnsLabel } from "./names.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { containerResourceName } from "./resources.ts";
import { withStatus } from "./workload/status.ts";
import { all, fields, filled, number, oneOf, present, type Rule, whole } from "./rules.ts";

/** HorizontalPodAutoscalers. Source: k8s.io/kubernetes, pkg/apis/autoscaling. */

const DEFAULT_UTILIZATION = 80;

export const autoscalerStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    spec["minReplicas"] ??= 1;
    if (itemsAt(spec, "metrics").length === 0) {
      const target = { type: "Utilization", averageUtilization: DEFAULT_UTILIZATION };
      spec["metrics"] = [{ type: "Resource", resource: { name: "cpu", target } }];
    }
    const behavior = fieldsAt(spec, "behavior");
    if (behavior !== undefined) defaultBehavior(behavior);
  },
  validateCreate: (object) => validateAutoscaler(object),
  validateUpdate: withStatus("HorizontalPodAutoscaler", validateAutoscaler),
};

const POLICIES: Readonly<Record<string, readonly Fields[]>> = {
  scaleUp: [
    { type: "Pods", value: 4, periodSeconds: 15 },
    { type: "Percent", value: 100, periodSeconds: 15 },
  ],
  scaleDown: [{ type: "Percent", value: 100, periodSeconds: 15 }],
};

function defaultBehavior(behavior: Fields): void {
  for (const [direction, policies] of Object.entries(POLICIES)) {
    const rules = ensureFields(behavior, direction);
    setDefault(rules, "selectPolicy", "Max");
    if (direction === "scaleUp") rules["stabilizationWindowSeconds"] ??= 0;
    rules["policies"] ??= policies.map((it) => ({ ...it }));
  }
}

const segment: Rule = filled("", (value, path) => {
  const problem = checkPathSegment(String(value));
  return problem === undefined ? [] : [invalid(path, value, problem)];
});

const segmentNamed = (detail: string): Rule => filled(detail, segment);

const reference: Rule = fields({ kind: segment, name: segment });

/** The scale target has a group, except for the one kind of the core group that has a scale. */
const scaleTarget: Rule = all(
  reference,
  whole((of, path) => {
    const version = textAt(of, "apiVersion");
    if (version.includes("/") || textAt(of, "kind") === "ReplicationController") return [];
    return [invalid(`${path}.apiVersion`, version, "apiVersion must specify API group")];
  }),
);

const TARGETS = new Set(["Utilization", "Value", "AverageValue"]);

const positiveQuantity: Rule = present((value, path) =>
  (parseQuantity(value) ?? 0n) > 0n ? [] : [invalid(path, value, "must be positive")],
);

const target: Rule = all(
  fields({
    type: all(filled("must specify a metric target type"), (value, path) =>
      typeof value === "string" && TARGETS.has(value)
        ? []
        : [invalid(path, value ?? "", "must be either Utilization, Value, or AverageValue")],
    ),
    value: positiveQuantity,
    averageValue: positiveQuantity,
    averageUtilization: present(number((it) => it >= 1, "must be greater than 0")),
  }),
);

const metricName: Rule = fields({ name: segmentNamed("must specify a metric name") });

/** Which of two forms of a target a source needs. */
interface Needs {
  readonly fields: readonly string[];
  readonly detail: string;
  readonly both?: string;
}

function needs({ fields: keys, detail, both }: Needs): Rule {
  return whole((of, path) => {
    const goal = fieldsAt(of, "target");
    const set = keys.filter((it) => goal?.[it] !== undefined);
    if (set.length === 0) return [required(`${path}.target.${keys[0] ?? ""}`, detail)];
    return set.length > 1 && both !== undefined ? [notAllowed(`${path}.target.${keys[1] ?? ""}`, both)] : [];
  });
}

const utilization = needs({
  fields: ["averageUtilization", "averageValue"],
  detail: "must set either a target raw value or a target utilization",
  both: "may not set both a target raw value and a target utilization",
});

const resourceName = filled("must specify a resource name");

/** By their field; in upstream's order. */
const SOURCES: Readonly<Record<string, Rule>> = {
  object: all(
    fields({ describedObject: reference, metric: metricName, target }),
    needs({ fields: ["averageValue", "value"], detail: "must set either a target value or averageValue" }),
  ),
  external: all(
    fields({ metric: metricName, target }),
    needs({
      fields: ["averageValue", "value"],
      detail: "must set either a target value for metric or a per-pod target",
      both: "may not set both a target value for metric and a per-pod target",
    }),
  ),
  pods: all(
    fields({ metric: metricName, target }),
    needs({ fields: ["averageValue"], detail: "must specify a positive target averageValue" }),
  ),
  resource: all(fields({ name: resourceName, target }), utilization),
  containerResource: all(
    fields({
      name: filled("must specify a resource name", (value, path) =>
        containerResourceName(String(value), path),
      ),
      container: filled("must specify a container", dnsLabel),
      target,
    }),
    utilization,
  ),
};
const TYPES = ["ContainerResource", "External", "Object", "Pods", "Resource"];

function validateMetric(metric: Fields, path: string): FieldError[] {
  const type = textAt(metric, "type");
  const errors: FieldError[] = [];
  const unknown = TYPES.includes(type) ? [] : [notSupported(`${path}.type`, type, TYPES)];
  if (type === "") errors.push(required(`${path}.type`, "must specify a metric source type"));
  errors.push(...unknown);
  const set = Object.keys(SOURCES).filter((it) => metric[it] !== undefined);
  const [first] = set;
  if (first !== undefined) errors.push(...(SOURCES[first]?.(metric[first], `${path}.${first}`) ?? []));
  const expected = type.charAt(0).toLowerCase() + type.slice(1);
  if (unknown.length > 0) errors.push(...unknown);
  else if (metric[expected] === undefined) {
    errors.push(required(`${path}.${expected}`, "must populate information for the given metric source"));
  }
  if (set.length === 1) return errors;
  const others = set.filter((it) => it !== expected);
  return [
    ...errors,
    ...others.map((it) => notAllowed(`${path}.${it}`, "must populate the given metric source only")),
  ];
}

const MAX_WINDOW = 3600;
const MAX_PERIOD = 1800;

const above = number((it) => it > 0, "must be greater than zero");

const scalingRules: Rule = present(
  fields({
    stabilizationWindowSeconds: present(
      number((it) => it >= 0, "must be greater than or equal to zero"),
      number((it) => it <= MAX_WINDOW, `must be less than or equal to ${MAX_WINDOW}`),
    ),
    selectPolicy: present(oneOf("Disabled", "Max", "Min")),
    policies: filled("must specify at least one Policy", (value, path) =>
      itemsAt({ value }, "value").flatMap((it, at) =>
        fields({
          type: oneOf("Percent", "Pods"),
          value: above,
          periodSeconds: all(
            above,
            number((period) => period <= MAX_PERIOD, `must be less than or equal to ${MAX_PERIOD}`),
          ),
        })(it, `${path}[${at}]`),
      ),
    ),
    tolerance: present((value, path) =>
      (parseQuantity(value) ?? 0n) >= 0n ? [] : [invalid(path, value, "must be greater than or equal to 0")],
    ),
  }),
);

/** An update that keeps the scale target may keep its reference. */
function validateAutoscaler(object: ApiObject, old?: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const least = numberAt(spec, "minReplicas");
  const most = numberAt(spec, "maxReplicas") ?? 0;
  const errors: FieldError[] = [];
  if (least !== undefined && least < 1) {
    errors.push(invalid("spec.minReplicas", least, "must be greater than or equal to 1"));
  }
  if (most === 0) errors.push(required("spec.maxReplicas", "must be set and greater than 0"));
  else if (most < 0) errors.push(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"));
  if (least !== undefined && most < least) {
    errors.push(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"));
  }
  const targetOf = (of: ApiObject): unknown => {
    const scaled = fieldsAt(fieldsAt(of, "spec"), "scaleTargetRef");
    return [scaled?.["kind"], scaled?.["apiVersion"]];
  };
  const isSameTarget = old !== undefined && sameJson(targetOf(object), targetOf(old));
  return [
    ...errors,
    ...fields({ scaleTargetRef: isSameTarget ? reference : scaleTarget })(spec, "spec"),
    ...itemsAt(spec, "metrics").flatMap((it, at) => validateMetric(it, `spec.metrics[${at}]`)),
    ...fields({ scaleUp: scalingRules, scaleDown: scalingRules })(
      fieldsAt(spec, "behavior"),
      "spec.behavior",
    ),
  ];
}
