import type {
  NamedExpression,
  ValidatingAdmissionPolicy,
  Validation,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_RESOURCE_OVERRIDES,
  RESOURCE_OVERRIDES,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  RESOURCE_PLACEMENTS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { SAYS_SOMETHING_NEW } from "./cel.ts";
import { isLabelValue, isQualified, isSubdomain } from "./formats.ts";

/** What KubeFleet's webhooks refuse in placements, overrides and taints by their content alone. It holds for everybody. */

function policy(
  name: string,
  kinds: readonly Pick<Resource, "group" | "plural">[],
  {
    variables,
    validations,
  }: { readonly variables?: readonly NamedExpression[]; readonly validations: readonly Validation[] },
): ValidatingAdmissionPolicy {
  return {
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      matchConstraints: {
        resourceRules: kinds.map((it) => ({
          apiGroups: [it.group],
          apiVersions: ["*"],
          resources: [it.plural],
          operations: ["CREATE", "UPDATE"],
          scope: "*",
        })),
      },
      matchConditions: [SAYS_SOMETHING_NEW],
      ...(variables === undefined ? {} : { variables }),
      validations,
    },
  };
}

const POLICY = "object.spec.?policy";
const TYPE = `${POLICY}.?placementType.orValue("PickAll")`;
const NAMES = `${POLICY}.?clusterNames.orValue([])`;
const AFFINITY = `${POLICY}.?affinity.?clusterAffinity`;
const REQUIRED = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED = "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution";

/** A label selector whose operators have the values that they need. */
function selects(selector: string): string {
  return `${selector}.?matchExpressions.orValue([]).all(e, e.operator in ["In", "NotIn"] ? e.?values.orValue([]).size() > 0 : e.operator in ["Exists", "DoesNotExist"] && e.?values.orValue([]).size() == 0)`;
}
const SELECTOR_MESSAGE = "In and NotIn need values, Exists and DoesNotExist take none";

const expressions = "t.?propertySelector.?matchExpressions.orValue([])";
const quantityOf = (of: string): string => `quantity(${of}.values[0])`;
const compared = `${quantityOf("e")}.compareTo(${quantityOf("f")})`;

/** Whether no value satisfies both `e` and `f`, in this order: a lower bound and an upper one, or a value and its exclusion. */
const CONTRADICTS =
  `(e.operator in ["Gt", "Ge", "Eq"] && f.operator in ["Lt", "Le", "Eq"] && (${compared} > 0 || (${compared} == 0 && (e.operator == "Gt" || f.operator == "Lt")))) || ` +
  `(e.operator == "Eq" && f.operator == "Ne" && ${compared} == 0)`;

const TOLERATIONS = `${POLICY}.?tolerations.orValue([])`;
const sameToleration = (a: string, b: string): string =>
  ["key", "operator", "value", "effect"]
    .map((it) => `${a}.?${it}.orValue("") == ${b}.?${it}.orValue("")`)
    .join(" && ");

const PLACEMENTS = policy("fairlead-placements", [CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS], {
  variables: [
    { name: "type", expression: TYPE },
    { name: "names", expression: NAMES },
    {
      name: "required",
      expression: `${AFFINITY}.?requiredDuringSchedulingIgnoredDuringExecution.?clusterSelectorTerms.orValue([])`,
    },
    {
      name: "preferred",
      expression: `${AFFINITY}.?preferredDuringSchedulingIgnoredDuringExecution.orValue([])`,
    },
    {
      name: "areQuantities",
      expression: `variables.required.all(t, ${expressions}.all(e, e.values.size() == 1 && isQuantity(e.values[0])))`,
    },
    { name: "tolerations", expression: TOLERATIONS },
    {
      name: "before",
      expression: `oldObject == null ? [] : ${TOLERATIONS.replace("object", "oldObject")}`,
    },
  ],
  validations: [
    {
      expression: 'object.metadata.?name.orValue("").size() <= 63',
      message: "metadata.name must be at most 63 characters long",
    },
    {
      expression: `object.spec.resourceSelectors.all(s, !has(s.labelSelector) || (${selects("s.?labelSelector")}))`,
      message: `spec.resourceSelectors[].labelSelector.matchExpressions: ${SELECTOR_MESSAGE}`,
    },
    {
      expression: 'variables.type != "PickFixed" || variables.names.size() > 0',
      message: "spec.policy.clusterNames must name a cluster if placementType is PickFixed",
    },
    {
      expression: "variables.names.all(n, variables.names.exists_one(o, o == n))",
      message: "spec.policy.clusterNames must name each cluster once",
    },
    {
      expression: `variables.names.all(n, ${isSubdomain("n")})`,
      message: "spec.policy.clusterNames must be DNS subdomain names (RFC 1123)",
    },
    {
      expression: 'variables.type != "PickAll" || variables.preferred.size() == 0',
      message: `${PREFERRED} cannot be set if placementType is PickAll`,
    },
    {
      expression: "variables.required.all(t, !has(t.propertySorter))",
      message: `${REQUIRED}.clusterSelectorTerms[].propertySorter is not allowed`,
    },
    {
      expression: "variables.preferred.all(p, !has(p.preference.propertySelector))",
      message: `${PREFERRED}[].preference.propertySelector is not allowed`,
    },
    {
      expression: `variables.required.all(t, ${selects("t.?labelSelector")}) && variables.preferred.all(p, ${selects("p.preference.?labelSelector")})`,
      message: `spec.policy.affinity.clusterAffinity: labelSelector.matchExpressions: ${SELECTOR_MESSAGE}`,
    },
    {
      expression: `variables.required.all(t, ${expressions}.all(e, ${isQualified("e.name")})) && variables.preferred.all(p, !has(p.preference.propertySorter) || ${isQualified("p.preference.propertySorter.name")})`,
      message: "spec.policy.affinity.clusterAffinity: names of properties must be qualified names",
    },
    {
      expression: `variables.required.all(t, ${expressions}.all(e, e.operator in ["Gt", "Ge", "Lt", "Le", "Eq", "Ne"]))`,
      message: `${REQUIRED}.clusterSelectorTerms[].propertySelector.matchExpressions[].operator must be Gt, Ge, Lt, Le, Eq or Ne`,
    },
    {
      expression: "variables.areQuantities",
      message: `${REQUIRED}.clusterSelectorTerms[].propertySelector.matchExpressions[].values must have exactly one quantity`,
    },
    {
      expression: `!variables.areQuantities || variables.required.all(t, ${expressions}.all(e, ${expressions}.filter(f, f.name == e.name && f.operator == "Eq").size() < 2 && ${expressions}.all(f, f.name != e.name || !(${CONTRADICTS}))))`,
      message: `${REQUIRED}.clusterSelectorTerms[].propertySelector.matchExpressions: no value satisfies all expressions of a property`,
    },
    {
      expression: `${POLICY}.?topologySpreadConstraints.orValue([]).all(c, ${isQualified("c.topologyKey")})`,
      message: "spec.policy.topologySpreadConstraints[].topologyKey must be a label key",
    },
    {
      expression: `variables.tolerations.all(t, (t.?key.orValue("") == "" || ${isQualified("t.key")}) && ${isLabelValue('t.?value.orValue("")')})`,
      message: "spec.policy.tolerations[]: key must be a label key, value a label value",
    },
    {
      expression: `variables.tolerations.all(t, variables.tolerations.exists_one(o, ${sameToleration("t", "o")}))`,
      message: "spec.policy.tolerations must be unique",
    },
    {
      expression: `variables.before.all(t, variables.tolerations.exists(o, ${sameToleration("t", "o")}))`,
      message: "spec.policy.tolerations can be added, but not changed or removed",
    },
  ],
});

const RULES = "object.spec.policy.overrideRules";
const PATCHES = "r.?jsonPatchOverrides.orValue([])";
function eachPatch(rule: string): string {
  return `${RULES}.all(r, ${PATCHES}.all(p, ${rule}))`;
}
const AT = "spec.policy.overrideRules[]";

/** The same for both kinds. */
const OVERRIDE_RULES: readonly Validation[] = [
  {
    expression: `${RULES}.all(r, r.?clusterSelector.?clusterSelectorTerms.orValue([]).all(t, !has(t.propertySelector) && !has(t.propertySorter)))`,
    message: `${AT}.clusterSelector.clusterSelectorTerms[]: only labelSelector is allowed`,
  },
  {
    expression: `${RULES}.all(r, r.?clusterSelector.?clusterSelectorTerms.orValue([]).all(t, ${selects("t.?labelSelector")}))`,
    message: `${AT}.clusterSelector.clusterSelectorTerms[].labelSelector.matchExpressions: ${SELECTOR_MESSAGE}`,
  },
  {
    expression: `${RULES}.all(r, r.?overrideType.orValue("JSONPatch") == "Delete" ? ${PATCHES}.size() == 0 : ${PATCHES}.size() > 0)`,
    message: `${AT}.jsonPatchOverrides is required if overrideType is JSONPatch, and not allowed if it is Delete`,
  },
  {
    expression: eachPatch('p.path.startsWith("/") && !p.path.contains("//") && !p.path.endsWith("/")'),
    message: `${AT}.jsonPatchOverrides[].path must be a JSON pointer that begins with / and has no empty part`,
  },
  {
    expression: eachPatch(
      '!(p.path.split("/").size() > 1 && p.path.split("/")[1] in ["kind", "apiVersion", "status"])',
    ),
    message: `${AT}.jsonPatchOverrides[].path must not be in /kind, /apiVersion or /status`,
  },
  {
    expression: eachPatch(
      '!(p.path.split("/").size() > 1 && p.path.split("/")[1] == "metadata") || (p.path.split("/").size() > 2 && p.path.split("/")[2] in ["annotations", "labels"])',
    ),
    message: `${AT}.jsonPatchOverrides[].path: of /metadata, only /metadata/annotations and /metadata/labels are allowed`,
  },
  {
    expression: eachPatch('p.op == "remove" ? !has(p.value) : has(p.value)'),
    message: `${AT}.jsonPatchOverrides[].value is required for add and replace, and not allowed for remove`,
  },
];

/** Each object is selected once. */
function uniqueSelectors(field: string): Validation {
  const at = `object.spec.${field}`;
  const same = ["group", "version", "kind"].map((it) => `s.${it} == o.${it}`).join(" && ");
  return {
    expression: `${at}.all(s, ${at}.exists_one(o, ${same} && s.?name.orValue("") == o.?name.orValue("")))`,
    message: `spec.${field} must select each object once`,
  };
}

const OVERRIDES: readonly ValidatingAdmissionPolicy[] = [
  policy("fairlead-cluster-overrides", [CLUSTER_RESOURCE_OVERRIDES], {
    validations: [
      {
        expression:
          'object.spec.clusterResourceSelectors.all(s, s.?name.orValue("") != "" && !has(s.labelSelector))',
        message: "spec.clusterResourceSelectors[]: name is required, and labelSelector is not allowed",
      },
      uniqueSelectors("clusterResourceSelectors"),
      ...OVERRIDE_RULES,
    ],
  }),
  policy("fairlead-overrides", [RESOURCE_OVERRIDES], {
    validations: [uniqueSelectors("resourceSelectors"), ...OVERRIDE_RULES],
  }),
];

const TAINTS = policy("fairlead-taints", [MEMBER_CLUSTERS], {
  variables: [{ name: "taints", expression: "object.spec.?taints.orValue([])" }],
  validations: [
    {
      expression: `variables.taints.all(t, ${isQualified("t.key")} && ${isLabelValue('t.?value.orValue("")')})`,
      message: "spec.taints[]: key must be a qualified name, value a label value",
    },
    {
      expression:
        'variables.taints.all(t, variables.taints.exists_one(o, t.key == o.key && t.?value.orValue("") == o.?value.orValue("") && t.effect == o.effect))',
      message: `spec.taints must be unique by key, value and effect`,
    },
  ],
});

export const PLACEMENT_POLICIES: readonly ValidatingAdmissionPolicy[] = [PLACEMENTS, ...OVERRIDES, TAINTS];
