/** Placements and overrides, and the message for those that are refused: a row of the reference each. */

export type Json = Record<string, unknown>;
const selector = { group: "", version: "v1", kind: "Namespace", name: "work" };
export const placement = (spec: Json): Json => ({ resourceSelectors: [selector], ...spec });
const policy = (of: Json): Json => placement({ policy: of });
const required = (...clusterSelectorTerms: Json[]): Json => ({
  affinity: {
    clusterAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { clusterSelectorTerms } },
  },
});
const preferred = (preference: Json, weight = 1): Json => ({
  affinity: {
    clusterAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight, preference }] },
  },
});
const properties = (...matchExpressions: Json[]): Json => ({ propertySelector: { matchExpressions } });
const nodes = (operator: string, ...values: string[]): Json => ({
  name: "kubernetes-fleet.io/node-count",
  operator,
  values,
});
const pickN = (more: Json): Json => policy({ placementType: "PickN", numberOfClusters: 2, ...more });
const withScope = (selectionScope: string, more: Json = {}): Json => ({
  ...selector,
  selectionScope,
  ...more,
});
export const repeated = <T>(count: number, of: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => of(at));

/** As the samples of KubeFleet's repository have them, and with every other field. */
export const ACCEPTED: readonly (readonly [string, Json])[] = [
  [
    "of a CRD, PickN with a spread",
    pickN({
      topologySpreadConstraints: [{ maxSkew: 1, topologyKey: "color", whenUnsatisfiable: "DoNotSchedule" }],
    }),
  ],
  [
    "PickN with weights and a spread",
    pickN({
      ...preferred(
        { labelSelector: { matchExpressions: [{ key: "env", operator: "In", values: ["canary"] }] } },
        -20,
      ),
      topologySpreadConstraints: [{ topologyKey: "color" }],
    }),
  ],
  [
    "PickN by a property",
    pickN(
      preferred(
        { propertySorter: { name: "kubernetes.azure.com/per-gb-memory-core-cost", sortOrder: "Descending" } },
        20,
      ),
    ),
  ],
  [
    "PickAll with terms",
    policy({
      placementType: "PickAll",
      ...required(
        { labelSelector: { matchLabels: { color: "blue" } } },
        { labelSelector: { matchLabels: { "test-key": "test-value2" } } },
      ),
    }),
  ],
  [
    "PickN with a toleration",
    pickN({
      tolerations: [{ key: "test-key1", operator: "Exists" }],
      ...required({ labelSelector: { matchExpressions: [{ key: "taint", operator: "Exists" }] } }),
    }),
  ],
  [
    "whose status the namespace may read",
    placement({
      policy: { placementType: "PickAll" },
      strategy: { type: "RollingUpdate" },
      statusReportingScope: "NamespaceAccessible",
    }),
  ],
  [
    "for staged runs",
    placement({
      strategy: { type: "External" },
      policy: { placementType: "PickAll", tolerations: [{ key: "gpu-workload", operator: "Exists" }] },
    }),
  ],
  ["without a policy", placement({})],
  ["on named clusters", policy({ placementType: "PickFixed", clusterNames: ["east", "west"] })],
  [
    "by properties that bound each other",
    policy(required(properties(nodes("Ge", "3"), nodes("Le", "3"), nodes("Ne", "4")))),
  ],
  [
    "of parts of a namespace",
    {
      resourceSelectors: [
        withScope("NamespaceWithResourceSelectors"),
        { group: "apps", version: "v1", kind: "Deployment", name: "d" },
      ],
    },
  ],
  [
    "with every option of the strategy",
    placement({
      revisionHistoryLimit: 1000,
      strategy: {
        type: "RollingUpdate",
        rollingUpdate: { maxUnavailable: 1, maxSurge: "100%", unavailablePeriodSeconds: 0 },
        applyStrategy: {
          type: "ServerSideApply",
          serverSideApplyConfig: { force: true },
          comparisonOption: "FullComparison",
          whenToApply: "IfNotDrifted",
          whenToTakeOver: "IfNoDiff",
          allowCoOwnership: true,
        },
        deleteStrategy: { propagationPolicy: "Abandon" },
        reportBackStrategy: { type: "Mirror", destination: "WorkAPI" },
      },
    }),
  ],
];

const REQUIRED = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED = "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution";

/** Each with a part of the message, which names the field. */
export const REFUSED: readonly (readonly [string, Json, string])[] = [
  ["without selectors", { resourceSelectors: [] }, "spec.resourceSelectors"],
  ["with 101 selectors", { resourceSelectors: repeated(101, () => selector) }, "spec.resourceSelectors"],
  [
    "that selects by name and labels",
    { resourceSelectors: [{ ...selector, labelSelector: {} }] },
    "name and labelSelector are mutually exclusive",
  ],
  [
    "of parts of two namespaces",
    {
      resourceSelectors: [
        withScope("NamespaceWithResourceSelectors"),
        withScope("NamespaceWithResourceSelectors", { name: "b" }),
      ],
    },
    "only one namespace selector",
  ],
  [
    "of parts of a namespace by labels",
    {
      resourceSelectors: [
        {
          group: "",
          version: "v1",
          kind: "Namespace",
          labelSelector: {},
          selectionScope: "NamespaceWithResourceSelectors",
        },
      ],
    },
    "must select by name",
  ],
  [
    "of parts of a namespace, and of another",
    { resourceSelectors: [withScope("NamespaceWithResourceSelectors"), { ...selector, name: "b" }] },
    "cannot mix",
  ],
  [
    "with an operator without values",
    {
      resourceSelectors: [
        {
          group: "",
          version: "v1",
          kind: "Namespace",
          labelSelector: { matchExpressions: [{ key: "a", operator: "In" }] },
        },
      ],
    },
    "spec.resourceSelectors[].labelSelector",
  ],
  [
    "NamespaceAccessible of two namespaces",
    {
      resourceSelectors: [selector, { ...selector, name: "b" }],
      statusReportingScope: "NamespaceAccessible",
    },
    "exactly one resourceSelector with kind 'Namespace'",
  ],
  [
    "PickAll with names",
    policy({ placementType: "PickAll", clusterNames: ["a"] }),
    "placementType is PickAll",
  ],
  [
    "PickAll with a number",
    policy({ placementType: "PickAll", numberOfClusters: 1 }),
    "placementType is PickAll",
  ],
  [
    "PickAll with a spread",
    policy({ placementType: "PickAll", topologySpreadConstraints: [{ topologyKey: "a" }] }),
    "placementType is PickAll",
  ],
  [
    "PickAll with preferences",
    policy({ placementType: "PickAll", ...preferred({ labelSelector: {} }) }),
    `${PREFERRED} cannot be set`,
  ],
  [
    "PickFixed without names",
    policy({ placementType: "PickFixed" }),
    "spec.policy.clusterNames must name a cluster",
  ],
  [
    "PickFixed with a number",
    policy({ placementType: "PickFixed", clusterNames: ["a"], numberOfClusters: 1 }),
    "placementType is PickFixed",
  ],
  [
    "PickFixed with an affinity",
    policy({ placementType: "PickFixed", clusterNames: ["a"], affinity: {} }),
    "placementType is PickFixed",
  ],
  [
    "PickFixed with a spread",
    policy({ placementType: "PickFixed", clusterNames: ["a"], topologySpreadConstraints: [] }),
    "placementType is PickFixed",
  ],
  [
    "PickFixed with tolerations",
    policy({ placementType: "PickFixed", clusterNames: ["a"], tolerations: [] }),
    "placementType is PickFixed",
  ],
  [
    "PickFixed with a name twice",
    policy({ placementType: "PickFixed", clusterNames: ["a", "a"] }),
    "spec.policy.clusterNames must name each cluster once",
  ],
  [
    "PickFixed with a name that none can have",
    policy({ placementType: "PickFixed", clusterNames: ["A_b"] }),
    "spec.policy.clusterNames must be DNS subdomain",
  ],
  [
    "PickFixed with 101 names",
    policy({ placementType: "PickFixed", clusterNames: repeated(101, (at) => `c${at}`) }),
    "spec.policy.clusterNames",
  ],
  ["PickN without a number", policy({ placementType: "PickN" }), "placementType is PickN"],
  ["PickN with names", pickN({ clusterNames: ["a"] }), "placementType is PickN"],
  ["PickN of -1", pickN({ numberOfClusters: -1 }), "spec.policy.numberOfClusters"],
  ["with 11 terms", policy(required(...repeated(11, () => ({ labelSelector: {} })))), "clusterSelectorTerms"],
  [
    "with a sorter in a term",
    policy(required({ propertySorter: { name: "a", sortOrder: "Ascending" } })),
    `${REQUIRED}.clusterSelectorTerms[].propertySorter`,
  ],
  [
    "with a property selector in a preference",
    pickN(preferred(properties(nodes("Gt", "1")))),
    `${PREFERRED}[].preference.propertySelector`,
  ],
  ["with a weight of 101", pickN(preferred({ labelSelector: {} }, 101)), "weight"],
  [
    "with an unknown operator",
    policy(required(properties(nodes("Like", "1")))),
    "matchExpressions[].operator",
  ],
  [
    "with a value that is not a quantity",
    policy(required(properties(nodes("Gt", "many")))),
    "exactly one quantity",
  ],
  ["with two values", policy(required(properties(nodes("Gt", "1", "2")))), "values"],
  ["without a value", policy(required(properties(nodes("Gt")))), "exactly one quantity"],
  [
    "with a property of no name",
    policy(required(properties({ ...nodes("Gt", "1"), name: "" }))),
    "names of properties",
  ],
  ["with two Eq", policy(required(properties(nodes("Eq", "1"), nodes("Eq", "1")))), "no value satisfies"],
  [
    "with Eq and Ne of a value",
    policy(required(properties(nodes("Eq", "1"), nodes("Ne", "1000m")))),
    "no value satisfies",
  ],
  [
    "with an empty interval",
    policy(required(properties(nodes("Gt", "3"), nodes("Lt", "2")))),
    "no value satisfies",
  ],
  [
    "with an interval open at its only value",
    policy(required(properties(nodes("Gt", "3"), nodes("Le", "3")))),
    "no value satisfies",
  ],
  [
    "with Eq outside of an interval",
    policy(required(properties(nodes("Eq", "5"), nodes("Lt", "5")))),
    "no value satisfies",
  ],
  [
    "with a selector term of a bad operator",
    policy(
      required({ labelSelector: { matchExpressions: [{ key: "a", operator: "Exists", values: ["b"] }] } }),
    ),
    "labelSelector.matchExpressions",
  ],
  ["with a skew of 0", pickN({ topologySpreadConstraints: [{ topologyKey: "a", maxSkew: 0 }] }), "maxSkew"],
  ["with a topology of no key", pickN({ topologySpreadConstraints: [{ topologyKey: "" }] }), "topologyKey"],
  [
    "with a toleration without key and Exists",
    policy({ tolerations: [{ operator: "Equal" }] }),
    "operator must be Exists when key is empty",
  ],
  [
    "with a toleration of Exists and a value",
    policy({ tolerations: [{ key: "a", operator: "Exists", value: "b" }] }),
    "value must be empty when operator is Exists",
  ],
  [
    "with a bad key in a toleration",
    policy({ tolerations: [{ key: "a b", operator: "Exists" }] }),
    "spec.policy.tolerations[]",
  ],
  [
    "with a toleration twice",
    policy({ tolerations: repeated(2, () => ({ key: "a", operator: "Exists" })) }),
    "spec.policy.tolerations must be unique",
  ],
  [
    "with 101 tolerations",
    policy({ tolerations: repeated(101, (at) => ({ key: `k${at}`, operator: "Exists" })) }),
    "spec.policy.tolerations",
  ],
  ["with a history of 0", placement({ revisionHistoryLimit: 0 }), "spec.revisionHistoryLimit"],
  [
    "with a budget of 101%",
    placement({ strategy: { rollingUpdate: { maxUnavailable: "101%" } } }),
    "maxUnavailable",
  ],
  [
    "with Mirror to nowhere",
    placement({ strategy: { reportBackStrategy: { type: "Mirror" } } }),
    "destination",
  ],
];

/** Changes of what is there: before, after, and what is refused. */
export const CHANGES: readonly (readonly [string, Json, Json, string | undefined])[] = [
  ["a policy is added", placement({}), policy({ placementType: "PickAll" }), undefined],
  ["the policy is removed", policy({}), placement({}), "policy cannot be removed"],
  ["the type is changed", pickN({}), policy({ placementType: "PickAll" }), "placement type is immutable"],
  ["the number is changed", pickN({}), pickN({ numberOfClusters: 5 }), undefined],
  [
    "External becomes RollingUpdate",
    placement({ strategy: { type: "External" } }),
    placement({ strategy: { type: "RollingUpdate" } }),
    "cannot change rollout strategy type",
  ],
  ["RollingUpdate becomes External", placement({}), placement({ strategy: { type: "External" } }), undefined],
  [
    "the scope of the status is changed",
    placement({}),
    placement({ statusReportingScope: "NamespaceAccessible" }),
    "statusReportingScope is immutable",
  ],
  [
    "a toleration is added",
    policy({}),
    policy({ tolerations: [{ key: "a", operator: "Exists" }] }),
    undefined,
  ],
  [
    "a toleration is changed",
    policy({ tolerations: [{ key: "a", operator: "Exists" }] }),
    policy({ tolerations: [{ key: "a", value: "b" }] }),
    "spec.policy.tolerations can be added",
  ],
  [
    "a toleration is removed",
    policy({ tolerations: [{ key: "a", operator: "Exists" }] }),
    policy({}),
    "spec.policy.tolerations can be added",
  ],
];

export const patches = (...jsonPatchOverrides: Json[]): Json => ({
  overrideRules: [{ clusterSelector: { clusterSelectorTerms: [] }, jsonPatchOverrides }],
});
export const add = (path: string): Json => ({ op: "add", path, value: "x" });
const clusterOverride = (spec: Json): Json => ({
  clusterResourceSelectors: [selector],
  policy: patches(add("/spec/a")),
  ...spec,
});
const rule = (of: Json): Json => clusterOverride({ policy: { overrideRules: [of] } });
const AT = "spec.policy.overrideRules[].jsonPatchOverrides[]";

export const OVERRIDES: readonly (readonly [string, Json, string | undefined])[] = [
  [
    "of an annotation, with variables",
    clusterOverride({
      policy: patches(
        add("/metadata/annotations/a"),
        { op: "replace", path: "/metadata/labels", value: { c: "${MEMBER-CLUSTER-NAME}" } },
        { op: "remove", path: "/spec/x" },
      ),
    }),
    undefined,
  ],
  [
    "that deletes",
    rule({
      clusterSelector: { clusterSelectorTerms: [{ labelSelector: { matchLabels: { a: "b" } } }] },
      overrideType: "Delete",
    }),
    undefined,
  ],
  ["for a placement", clusterOverride({ placement: { name: "p" } }), undefined],
  [
    "for a ResourcePlacement",
    clusterOverride({ placement: { name: "p", scope: "Namespaced" } }),
    "cannot be Namespaced scope",
  ],
  ["of no object", clusterOverride({ clusterResourceSelectors: [] }), "clusterResourceSelectors"],
  [
    "of 21 objects",
    clusterOverride({ clusterResourceSelectors: repeated(21, (at) => ({ ...selector, name: `n${at}` })) }),
    "clusterResourceSelectors",
  ],
  [
    "of an object twice",
    clusterOverride({ clusterResourceSelectors: [selector, selector] }),
    "spec.clusterResourceSelectors must select each object once",
  ],
  [
    "of objects by labels",
    clusterOverride({
      clusterResourceSelectors: [{ group: "", version: "v1", kind: "Namespace", labelSelector: {} }],
    }),
    "spec.clusterResourceSelectors[]: name is required",
  ],
  ["without rules", clusterOverride({ policy: { overrideRules: [] } }), "overrideRules"],
  [
    "with 21 rules",
    clusterOverride({ policy: { overrideRules: repeated(21, () => ({ overrideType: "Delete" })) } }),
    "overrideRules",
  ],
  [
    "with 21 patches",
    clusterOverride({ policy: patches(...repeated(21, (at) => add(`/spec/a${at}`))) }),
    "jsonPatchOverrides",
  ],
  ["without patches", rule({}), "jsonPatchOverrides is required"],
  [
    "that deletes and patches",
    rule({ overrideType: "Delete", jsonPatchOverrides: [add("/spec/a")] }),
    "not allowed if it is Delete",
  ],
  [
    "by properties of clusters",
    rule({
      clusterSelector: { clusterSelectorTerms: [properties(nodes("Gt", "1"))] },
      jsonPatchOverrides: [add("/spec/a")],
    }),
    "only labelSelector is allowed",
  ],
  ["of kind", clusterOverride({ policy: patches(add("/kind")) }), `${AT}.path must not be in`],
  ["of apiVersion", clusterOverride({ policy: patches(add("/apiVersion")) }), `${AT}.path must not be in`],
  ["of status", clusterOverride({ policy: patches(add("/status/phase")) }), `${AT}.path must not be in`],
  [
    "of the name",
    clusterOverride({ policy: patches(add("/metadata/name")) }),
    "only /metadata/annotations and /metadata/labels",
  ],
  [
    "of all metadata",
    clusterOverride({ policy: patches(add("/metadata")) }),
    "only /metadata/annotations and /metadata/labels",
  ],
  [
    "of finalizers",
    clusterOverride({ policy: patches(add("/metadata/finalizers")) }),
    "only /metadata/annotations and /metadata/labels",
  ],
  [
    "of a path without a slash",
    clusterOverride({ policy: patches(add("spec/a")) }),
    `${AT}.path must be a JSON pointer`,
  ],
  [
    "of a path with an empty part",
    clusterOverride({ policy: patches(add("/spec//a")) }),
    `${AT}.path must be a JSON pointer`,
  ],
  [
    "that removes with a value",
    clusterOverride({ policy: patches({ ...add("/spec/a"), op: "remove" }) }),
    `${AT}.value`,
  ],
  [
    "that adds without a value",
    clusterOverride({ policy: patches({ op: "add", path: "/spec/a" }) }),
    `${AT}.value`,
  ],
];
