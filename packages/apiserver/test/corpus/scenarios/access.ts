import { area, del, get, given, patch, post, put, scenario, send } from "../scenario.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const ROLES = `${RBAC}/namespaces/$ns/roles`;
const BINDINGS = `${RBAC}/namespaces/$ns/rolebindings`;
const AUTHORIZATION = "/apis/authorization.k8s.io/v1";
const AUTHENTICATION = "/apis/authentication.k8s.io/v1";
const ACCOUNTS = "/api/v1/namespaces/$ns/serviceaccounts";
const MAPS = "/api/v1/namespaces/$ns/configmaps";
const CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/** CN=jane, O=dev. */
const REQUEST = Buffer.from(`-----BEGIN CERTIFICATE REQUEST-----
MIHYMH8CAQAwHTEMMAoGA1UECgwDZGV2MQ0wCwYDVQQDDARqYW5lMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEqxMK7l+AOgJNst4lWo+tiYmuFqw8VHhtSydPnQ7w
Hnebtlq7y1SS1zBSeP/sBrgS6i2UGcEpQZCaCyxarEIq56AAMAoGCCqGSM49BAMC
A0kAMEYCIQDxwo43oLAJzP04MYSXsnvkFhCoPGyVTZogUvWlASPGygIhAJ22uqz2
/vn3pOm4+KZP5WExEsIn5pCEHjBKi5BK23nR
-----END CERTIFICATE REQUEST-----
`).toString("base64");
/** CN=jane, O=system:masters. */
const MASTERS_REQUEST = Buffer.from(`-----BEGIN CERTIFICATE REQUEST-----
MIHkMIGKAgEAMCgxFzAVBgNVBAoMDnN5c3RlbTptYXN0ZXJzMQ0wCwYDVQQDDARq
YW5lMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqxMK7l+AOgJNst4lWo+tiYmu
Fqw8VHhtSydPnQ7wHnebtlq7y1SS1zBSeP/sBrgS6i2UGcEpQZCaCyxarEIq56AA
MAoGCCqGSM49BAMCA0kAMEYCIQCBQmwNfZKoIYlGNjSjpcz8o83OwwPhqj2n3bXS
7TxefAIhALJtn+yuCttw238L8lt2ssEXJonNR3wO9p1lcgyVp8Io
-----END CERTIFICATE REQUEST-----
`).toString("base64");

const READER = { verbs: ["get", "list"], apiGroups: [""], resources: ["configmaps"] };
const BIND_ADA = {
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "reader" },
  subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: "ada-$id" }],
};
const ADA = { as: "ada-$id" };

function csr(name: string, spec: object): object {
  return {
    metadata: { name },
    spec: { request: REQUEST, signerName: "example.com/own", usages: ["client auth"], ...spec },
  };
}

/** The permissions of a user, without times and other values that vary. */
function rulesOf(body: unknown): unknown {
  const { status } = body as { status: { resourceRules: { resources: string[] }[]; incomplete: boolean } };
  return {
    incomplete: status.incomplete,
    ofConfigMaps: status.resourceRules.filter((it) => it.resources.includes("configmaps")),
  };
}

function requesterless(body: unknown): unknown {
  const { spec, ...rest } = body as { spec?: Record<string, unknown> };
  if (spec === undefined) return body;
  const { username: _1, uid: _2, groups: _3, extra: _4, ...asked } = spec;
  return { ...rest, spec: asked };
}

export const scenarios = area("access", [
  scenario("a user with a role may do what its rules allow and nothing else", [
    given(post(ROLES, { metadata: { name: "reader" }, rules: [READER] })),
    post(BINDINGS, { metadata: { name: "ada" }, ...BIND_ADA }),
    get(MAPS, ADA),
    get(`${MAPS}/absent`, ADA),
    post(MAPS, { metadata: { name: "a" } }, ADA),
    del(`${MAPS}/a`, undefined, ADA),
    send("DELETE", MAPS, ADA),
    patch("merge", `${MAPS}/a`, {}, ADA),
    get("/api/v1/configmaps", ADA),
    get("/api/v1/nodes/a", ADA),
    get("/apis/apps/v1/namespaces/$ns/deployments/a/scale", ADA),
    get("/metrics", ADA),
    get("/unknown/path", ADA),
    send("POST", "/version", ADA),
    // prose: upstream (recorded)
    get(`${MAPS}?watch=true`, { ...ADA, as: "nobody-$id" }),
  ]),
  scenario("a request without credentials is anonymous", [
    get("/api/v1/namespaces/default", { token: "" }),
    get("/version", { token: "", view: () => ({}) }),
    get("/healthz", { token: "" }),
    get("/api", { token: "wrong" }),
  ]),
  scenario("users can only grant permissions that they have", [
    given(
      post(ROLES, {
        metadata: { name: "manager" },
        rules: [
          READER,
          { verbs: ["*"], apiGroups: ["rbac.authorization.k8s.io"], resources: ["roles", "rolebindings"] },
        ],
      }),
      post(BINDINGS, {
        metadata: { name: "manager" },
        ...BIND_ADA,
        roleRef: { ...BIND_ADA.roleRef, name: "manager" },
      }),
    ),
    post(ROLES, { metadata: { name: "less" }, rules: [{ ...READER, verbs: ["get"] }] }, ADA),
  ]),
  scenario("roles and bindings are checked", [
    post(ROLES, { metadata: { name: "a" }, rules: [{ verbs: [] }] }),
    post(ROLES, { metadata: { name: "a" }, rules: [{ verbs: ["get"], nonResourceURLs: ["/a"] }] }),
    post(ROLES, { metadata: { name: "a" }, rules: [{ verbs: ["get"], apiGroups: [""] }] }),
    post(BINDINGS, { metadata: { name: "a" }, roleRef: { kind: "Other", name: "x" } }),
    post(BINDINGS, { metadata: { name: "a" }, ...BIND_ADA, subjects: [{ kind: "Robot", name: "x" }] }),
    post(BINDINGS, { metadata: { name: "a" }, ...BIND_ADA, subjects: [{ kind: "User", name: "" }] }),
    post(BINDINGS, {
      metadata: { name: "a" },
      ...BIND_ADA,
      subjects: [{ kind: "ServiceAccount", name: "b" }],
    }),
    patch("merge", `${BINDINGS}/a`, { roleRef: { name: "other" } }),
  ]),
  scenario("the permissions of a user can be reviewed", [
    given(
      post(ROLES, { metadata: { name: "reader" }, rules: [READER] }),
      post(BINDINGS, { metadata: { name: "ada" }, ...BIND_ADA }),
    ),
    post(`${AUTHORIZATION}/subjectaccessreviews`, {
      spec: {
        user: "ada-$id",
        resourceAttributes: { namespace: "$ns", verb: "get", resource: "configmaps", name: "x" },
      },
    }),
    post(`${AUTHORIZATION}/subjectaccessreviews`, {
      spec: {
        user: "ada-$id",
        groups: ["g"],
        uid: "u",
        extra: { k: ["v"] },
        resourceAttributes: {
          namespace: "$ns",
          verb: "list",
          resource: "configmaps",
          fieldSelector: { requirements: [{ key: "metadata.name", operator: "In", values: ["x"] }] },
          labelSelector: { rawSelector: "a=b" },
        },
      },
    }),
    post(`${AUTHORIZATION}/subjectaccessreviews`, {
      spec: {
        user: "ada-$id",
        resourceAttributes: { namespace: "$ns", verb: "delete", resource: "configmaps" },
      },
    }),
    post(`${AUTHORIZATION}/subjectaccessreviews`, {
      spec: { user: "ada-$id", nonResourceAttributes: { path: "/healthz", verb: "get" } },
    }),
    post(`${AUTHORIZATION}/subjectaccessreviews`, { spec: { user: "ada-$id" } }),
    post(`${AUTHORIZATION}/subjectaccessreviews`, {
      spec: { resourceAttributes: { verb: "get", resource: "pods" } },
    }),
    post(`${AUTHORIZATION}/subjectaccessreviews`, {
      spec: {
        user: "a",
        resourceAttributes: { verb: "get", resource: "pods" },
        nonResourceAttributes: { path: "/", verb: "get" },
      },
    }),
    post(`${AUTHORIZATION}/namespaces/$ns/localsubjectaccessreviews`, {
      spec: {
        user: "ada-$id",
        resourceAttributes: { namespace: "$ns", verb: "get", resource: "configmaps" },
      },
    }),
    post(`${AUTHORIZATION}/namespaces/$ns/localsubjectaccessreviews`, {
      spec: { user: "ada-$id", resourceAttributes: { namespace: "other", verb: "get", resource: "pods" } },
    }),
    post(
      `${AUTHORIZATION}/selfsubjectaccessreviews`,
      { spec: { resourceAttributes: { namespace: "$ns", verb: "get", resource: "configmaps" } } },
      ADA,
    ),
    post(`${AUTHORIZATION}/selfsubjectaccessreviews`, { spec: {} }, ADA),
    post(
      `${AUTHORIZATION}/selfsubjectrulesreviews`,
      { spec: { namespace: "$ns" } },
      { ...ADA, view: rulesOf },
    ),
    post(`${AUTHORIZATION}/selfsubjectrulesreviews`, { spec: {} }, ADA),
    get(`${AUTHORIZATION}/selfsubjectaccessreviews`),
  ]),
  scenario("a user may impersonate another with permission", [
    post(`${AUTHENTICATION}/selfsubjectreviews`, {}, { as: "ada", groups: ["devs"] }),
    post(
      `${AUTHENTICATION}/selfsubjectreviews`,
      {},
      { headers: { "Impersonate-User": "ada", "Impersonate-Uid": "u1", "Impersonate-Extra-scope": "all" } },
    ),
    post(`${AUTHENTICATION}/selfsubjectreviews`, {}, { as: "system:serviceaccount:$ns:robot" }),
    post(`${AUTHENTICATION}/selfsubjectreviews`, {}, { as: "system:anonymous" }),
  ]),
  scenario("a ServiceAccount gets tokens", [
    given(post(ACCOUNTS, { metadata: { name: "robot" } })),
    post(`${ACCOUNTS}/absent/token`, { spec: {} }),
    post(`${ACCOUNTS}/robot/token`, { spec: { expirationSeconds: 5 } }),
    post(`${ACCOUNTS}/robot/token`, {
      spec: { audiences: ["a"], boundObjectRef: { kind: "Secret", apiVersion: "v1", name: "absent" } },
    }),
    post(`${ACCOUNTS}/robot/token`, {
      spec: { audiences: ["a"], boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "absent" } },
    }),
    post(`${ACCOUNTS}/robot/token`, {
      spec: { audiences: ["a"], boundObjectRef: { kind: "ConfigMap", apiVersion: "v1", name: "absent" } },
    }),
    get(`${ACCOUNTS}/robot/token`),
  ]),
  scenario("a token can be reviewed", [
    post(`${AUTHENTICATION}/tokenreviews`, { spec: { token: "wrong" } }),
    post(`${AUTHENTICATION}/tokenreviews`, { spec: {} }),
    get(`${AUTHENTICATION}/tokenreviews`),
    put(`${AUTHENTICATION}/tokenreviews/a`, {}),
  ]),
  scenario("a certificate is requested", [
    post(CSRS, csr("a-$id", {}), { view: requesterless }),
    post(CSRS, csr("b-$id", { usages: ["client auth", "client auth", "foo"], expirationSeconds: 3 })),
    post(CSRS, csr("b-$id", { request: "AAAA", usages: [] })),
    post(CSRS, csr("b-$id", { signerName: "foo" })),
    post(CSRS, csr("b-$id", { signerName: "Foo.bar/b z" })),
    post(CSRS, csr("b-$id", { signerName: "" })),
    post(CSRS, csr("b-$id", { signerName: "kubernetes.io/legacy-unknown" })),
    post(CSRS, csr("b-$id", { signerName: "kubernetes.io/kube-apiserver-client", request: MASTERS_REQUEST })),
    patch("merge", `${CSRS}/a-$id`, { spec: { signerName: "a.b/c" } }, { view: requesterless }),
    get(`${CSRS}/a-$id/approval`, { view: requesterless }),
    patch("merge", `${CSRS}/a-$id/status`, {
      status: { conditions: [{ type: "Approved", status: "True" }] },
    }),
    patch("merge", `${CSRS}/a-$id/approval`, {
      status: { conditions: [{ type: "Approved", status: "False" }] },
    }),
    patch("merge", `${CSRS}/a-$id/approval`, { status: { conditions: [{ type: "", status: "" }] } }),
    patch(
      "merge",
      `${CSRS}/a-$id/approval`,
      { status: { conditions: [{ type: "Approved", status: "True", reason: "R", message: "m" }] } },
      { view: requesterless },
    ),
    patch("merge", `${CSRS}/a-$id/approval`, { status: { conditions: [] } }),
    patch("merge", `${CSRS}/a-$id/approval`, {
      status: {
        conditions: [
          { type: "Approved", status: "True" },
          { type: "Denied", status: "True" },
        ],
      },
    }),
    patch("merge", `${CSRS}/a-$id/status`, { status: { certificate: "AAAA" } }),
    del(`${CSRS}/a-$id`),
  ]),
]);
