import { area, get, given, patch, post, put, scenario, type Step } from "../scenario.ts";

const GROUP = "/apis/admissionregistration.k8s.io/v1";
const POLICIES = `${GROUP}/validatingadmissionpolicies`;
const BINDINGS = `${GROUP}/validatingadmissionpolicybindings`;
const MAPS = "/api/v1/namespaces/$ns/configmaps";
const API_VERSION = "admissionregistration.k8s.io/v1";

const CONFIG_MAPS = {
  resourceRules: [
    {
      apiGroups: [""],
      apiVersions: ["v1"],
      operations: ["CREATE", "UPDATE", "DELETE"],
      resources: ["configmaps"],
    },
  ],
  namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "$ns" } },
};

function policy(spec: object, name = "$id"): object {
  const matchConstraints = CONFIG_MAPS;
  return {
    apiVersion: API_VERSION,
    kind: "ValidatingAdmissionPolicy",
    metadata: { name },
    spec: { matchConstraints, ...spec },
  };
}

function binding(spec: object = {}, name = "$id"): object {
  return {
    apiVersion: API_VERSION,
    kind: "ValidatingAdmissionPolicyBinding",
    metadata: { name },
    spec: { policyName: "$id", validationActions: ["Deny"], ...spec },
  };
}

const map = (name: string, data: object = {}, metadata: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...metadata },
  data,
});

/** What every policy here refuses: by it is seen when the policy is in force. */
const PROBE = { expression: "request.name != 'probe'" };

/** Steps that make a policy, bound, and wait until it is in force. */
function inForce(spec: { readonly validations?: readonly object[] }, bound: object = {}): readonly Step[] {
  const { validations = [] } = spec;
  return [
    ...given(
      post(POLICIES, policy({ ...spec, validations: [PROBE, ...validations] })),
      post(BINDINGS, binding(bound)),
    ),
    post(`${MAPS}?dryRun=All`, map("probe"), {
      until: (body) =>
        typeof body === "object" && body !== null && "reason" in body && body.reason === "Invalid",
    }),
  ];
}

export const scenarios = area("admission-policies", [
  scenario("a policy rejects objects that violate its validations", [
    inForce({
      validations: [
        { expression: "!has(object.data.a) || object.data.a == '1'" },
        { expression: "!has(object.data.b)", message: "no b" },
        {
          expression: "!has(object.data.c)",
          messageExpression: "'not ' + object.data.c",
          reason: "Forbidden",
        },
        {
          expression: "!has(object.data.d)",
          messageExpression: "string(object.data.nothing)",
          message: "no d",
        },
        {
          expression: "!has(object.data.e) || object.data.e.size() > int(object.data.e)",
          reason: "RequestEntityTooLarge",
        },
      ],
    }),
    post(MAPS, map("a", { a: "1" })),
    post(MAPS, map("x", { a: "2" })),
    post(MAPS, map("x", { b: "2" })),
    post(MAPS, map("x", { c: "this" })),
    post(MAPS, map("x", { d: "2" })),
    post(MAPS, map("x", { e: "5" })),
    post(MAPS, map("x", { e: "word" })),
    put(`${MAPS}/a`, map("a", { a: "3" })),
    patch("merge", `${MAPS}/a`, { data: { b: "1" } }),
    get(MAPS),
  ]),
  scenario("a policy sees old objects, deletions and the user", [
    inForce({
      validations: [
        {
          expression: "request.operation != 'UPDATE' || object.data.size() >= oldObject.data.size()",
          // prose: upstream (recorded)
          message: "nothing is taken away",
        },
        { expression: "request.operation != 'DELETE' || oldObject.data.keep != 'yes'", message: "is kept" },
        { expression: "request.userInfo.username != '' && request.namespace == '$ns'" },
        { expression: "namespaceObject.metadata.name == '$ns'" },
        { expression: "authorizer.group('').resource('pods').namespace('$ns').check('get').allowed()" },
        { expression: "authorizer.requestResource.check('update').allowed()" },
        { expression: "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'" },
      ],
    }),
    given(post(MAPS, map("a", { keep: "yes", b: "1" }))),
    put(`${MAPS}/a`, map("a", { keep: "yes" })),
    { method: "DELETE", path: `${MAPS}/a` },
    given(put(`${MAPS}/a`, map("a", { keep: "no", b: "1" }))),
    { method: "DELETE", path: `${MAPS}/a` },
  ]),
  scenario("conditions and variables", [
    inForce({
      matchConditions: [
        {
          name: "not-exempt",
          expression: "!has(object.metadata.labels) || !('exempt' in object.metadata.labels)",
        },
      ],
      variables: [
        { name: "size", expression: "has(object.data) ? object.data.size() : 0" },
        { name: "twice", expression: "variables.size * 2" },
      ],
      validations: [
        { expression: "variables.twice < 4", messageExpression: "'twice is ' + string(variables.twice)" },
      ],
    } as object),
    post(MAPS, map("a", { a: "1" })),
    post(MAPS, map("b", { a: "1", b: "2" })),
    post(MAPS, map("c", { a: "1", b: "2" }, { labels: { exempt: "" } })),
  ]),
  scenario("a policy that only warns", [
    ...inForce({ validations: [{ expression: "!has(object.data.a)", message: "no a" }] }),
    given(patch("merge", `${BINDINGS}/$id`, { spec: { validationActions: ["Warn", "Audit"] } })),
    post(`${MAPS}?dryRun=All`, map("probe"), {
      until: (body) =>
        typeof body === "object" && body !== null && "kind" in body && body.kind === "ConfigMap",
    }),
    post(MAPS, map("a", { a: "1" })),
  ]),
  scenario("parameters", [
    given(
      post(MAPS, map("limits", { max: "2" }, { labels: { limits: "yes" } })),
      post(POLICIES, {
        ...policy({
          paramKind: { apiVersion: "v1", kind: "ConfigMap" },
          validations: [
            PROBE,
            {
              expression: "object.data.size() <= int(params.data.max)",
              messageExpression: "'at most ' + params.data.max",
            },
          ],
        }),
      }),
      post(BINDINGS, binding({ paramRef: { name: "limits", parameterNotFoundAction: "Deny" } })),
    ),
    post(`${MAPS}?dryRun=All`, map("probe", { a: "1" }), {
      until: (body) =>
        typeof body === "object" && body !== null && "reason" in body && body.reason === "Invalid",
    }),
    post(MAPS, map("a", { a: "1" })),
    post(MAPS, map("b", { a: "1", b: "2", c: "3" })),
  ]),
  scenario(
    "policies that are rejected",
    [
      post(POLICIES, {
        apiVersion: API_VERSION,
        kind: "ValidatingAdmissionPolicy",
        metadata: { name: "$id" },
        spec: {},
      }),
      post(POLICIES, policy({ validations: [] })),
      post(POLICIES, policy({ validations: [{ expression: "1 + 1" }] })),
      post(POLICIES, policy({ validations: [{ expression: "nothing == 1" }] })),
      post(POLICIES, policy({ validations: [{ expression: "" }] })),
      post(POLICIES, policy({ validations: [{ expression: "true", message: "a\nb" }] })),
      post(POLICIES, policy({ validations: [{ expression: "true", reason: "Because" }] })),
      post(POLICIES, policy({ validations: [{ expression: "params.a == 1" }] })),
      post(POLICIES, policy({ validations: [{ expression: "true", messageExpression: "1" }] })),
      post(POLICIES, policy({ validations: [{ expression: "true" }], failurePolicy: "Maybe" })),
      post(POLICIES, policy({ validations: [{ expression: "true" }], matchConstraints: undefined })),
      post(POLICIES, policy({ validations: [{ expression: "true" }], matchConstraints: {} })),
      post(
        POLICIES,
        policy({ validations: [{ expression: "true" }], paramKind: { apiVersion: "", kind: "" } }),
      ),
      post(
        POLICIES,
        policy({
          validations: [{ expression: "true" }],
          variables: [{ name: "not a name", expression: "1" }],
        }),
      ),
      post(
        POLICIES,
        policy({ validations: [{ expression: "variables.b" }], variables: [{ name: "a", expression: "1" }] }),
      ),
      post(
        POLICIES,
        policy({ validations: [{ expression: "true" }], matchConditions: [{ name: "a", expression: "1" }] }),
      ),
      post(
        POLICIES,
        policy({
          validations: [{ expression: "true" }],
          matchConditions: [
            { name: "a", expression: "true" },
            { name: "a", expression: "true" },
          ],
        }),
      ),
      post(POLICIES, policy({ auditAnnotations: [{ key: "a", valueExpression: "1" }] })),
      post(POLICIES, policy({ auditAnnotations: [{ key: "no good", valueExpression: "'a'" }] })),
      post(
        POLICIES,
        policy({
          validations: [{ expression: "true" }],
          matchConstraints: {
            resourceRules: [
              { apiGroups: ["*", ""], apiVersions: [], operations: ["READ"], resources: ["pods/", "*"] },
            ],
          },
        }),
      ),
    ],
    { namespaced: true },
  ),
  scenario(
    "bindings that are rejected",
    [
      post(BINDINGS, binding({ policyName: "" })),
      post(BINDINGS, binding({ validationActions: [] })),
      post(BINDINGS, binding({ validationActions: ["Deny", "Warn"] })),
      post(BINDINGS, binding({ validationActions: ["Shout"] })),
      post(BINDINGS, binding({ validationActions: ["Audit", "Audit"] })),
      post(BINDINGS, binding({ paramRef: {} })),
      post(BINDINGS, binding({ paramRef: { name: "a", selector: {}, parameterNotFoundAction: "Deny" } })),
      post(BINDINGS, binding({ paramRef: { name: "a" } })),
      post(BINDINGS, binding({ matchResources: { matchPolicy: "Some" } })),
    ],
    { namespaced: true },
  ),
  scenario("policies as they are stored", [
    post(POLICIES, policy({ validations: [{ expression: "true" }] })),
    post(
      BINDINGS,
      binding({
        matchResources: {
          resourceRules: [
            { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] },
          ],
        },
      }),
    ),
    get(`${POLICIES}/$id`),
    get(`${BINDINGS}/$id`),
    patch("merge", `${POLICIES}/$id`, { spec: { failurePolicy: "Ignore" } }),
  ]),
]);
