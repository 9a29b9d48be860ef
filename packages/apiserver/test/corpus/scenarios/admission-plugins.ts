import { area, given, patch, post, scenario } from "../scenario.ts";

const PODS = "/api/v1/namespaces/$ns/pods";
const CLAIMS = "/api/v1/namespaces/$ns/persistentvolumeclaims";
const NAMESPACE = "/api/v1/namespaces/$ns";

const container = (more: object = {}): object => ({ name: "c", image: "i", ...more });
const pod = (name: string, spec: object = {}): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { containers: [container()], automountServiceAccountToken: false, ...spec },
});
const resources = (requests: object, limits: object): object => ({ resources: { requests, limits } });
const limited = (limits: object): object => ({
  apiVersion: "v1",
  kind: "LimitRange",
  metadata: { name: "limits" },
  spec: { limits: [limits] },
});

/** Without `kind: ConfigMap`, which the webhook does not read; of a pod only its containers and annotations. */
const seen = (body: unknown): unknown => {
  const { kind, message, reason, code, details, metadata, spec } = body as Record<string, unknown> & {
    metadata: { annotations?: unknown };
    spec?: { containers?: unknown; initContainers?: unknown };
  };
  if (kind === "Status") return { message, reason, code, details };
  return { annotations: metadata.annotations, containers: spec?.containers, init: spec?.initContainers };
};

const labelled = (labels: Readonly<Record<string, string>>): object => ({
  metadata: {
    labels: Object.fromEntries(
      Object.entries(labels).map(([mode, level]) => [`pod-security.kubernetes.io/${mode}`, level]),
    ),
  },
});

const secure = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
  runAsNonRoot: true,
  seccompProfile: { type: "RuntimeDefault" },
};

/** Each breaks the baseline in its own way. */
const BAD: readonly object[] = [
  { hostNetwork: true, hostPID: true },
  { containers: [container({ securityContext: { privileged: true } })] },
  { containers: [container({ securityContext: { capabilities: { add: ["NET_ADMIN", "CHOWN"] } } })] },
  { containers: [container({ ports: [{ containerPort: 80, hostPort: 8080 }] })] },
  { volumes: [{ name: "v", hostPath: { path: "/" } }] },
  { securityContext: { seccompProfile: { type: "Unconfined" } } },
  { securityContext: { sysctls: [{ name: "kernel.msgmax", value: "1" }] } },
  { securityContext: { seLinuxOptions: { type: "other_t", user: "u" } } },
  { securityContext: { appArmorProfile: { type: "Unconfined" } } },
  {
    containers: [container({ livenessProbe: { httpGet: { host: "example.com", port: 80 } } })],
  },
];

export const scenarios = area("admission-plugins", [
  scenario("a LimitRange sets default resources of containers", [
    given(
      post(
        "/api/v1/namespaces/$ns/limitranges",
        limited({
          type: "Container",
          default: { cpu: "1", memory: "64Mi" },
          defaultRequest: { cpu: "100m", memory: "64Mi" },
        }),
      ),
    ),
    post(`${PODS}?dryRun=All`, pod("a"), { view: seen }),
    post(
      `${PODS}?dryRun=All`,
      pod("b", {
        containers: [container(resources({ cpu: "200m" }, {}))],
        initContainers: [{ name: "i", image: "i" }],
      }),
      { view: seen },
    ),
  ]),
  scenario("a LimitRange limits containers", [
    given(
      post(
        "/api/v1/namespaces/$ns/limitranges",
        limited({
          type: "Container",
          min: { cpu: "100m" },
          default: { cpu: "1" },
          defaultRequest: { cpu: "1" },
          max: { cpu: "1" },
          maxLimitRequestRatio: { cpu: "2" },
        }),
      ),
    ),
    post(`${PODS}?dryRun=All`, pod("a"), { view: seen }),
    post(
      `${PODS}?dryRun=All`,
      pod("b", { containers: [container(resources({ cpu: "50m" }, { cpu: "80m" }))] }),
      { view: seen },
    ),
    post(`${PODS}?dryRun=All`, pod("c", { containers: [container(resources({ cpu: "1" }, { cpu: "2" }))] }), {
      view: seen,
    }),
    post(
      `${PODS}?dryRun=All`,
      pod("d", { containers: [container(resources({ cpu: "300m" }, { cpu: "1" }))] }),
      { view: seen },
    ),
  ]),
  scenario("a LimitRange limits pods and claims", [
    given(
      post("/api/v1/namespaces/$ns/limitranges", {
        ...limited({ type: "Pod", max: { memory: "128Mi" } }),
      }),
      post("/api/v1/namespaces/$ns/limitranges", {
        apiVersion: "v1",
        kind: "LimitRange",
        metadata: { name: "claims" },
        spec: {
          limits: [{ type: "PersistentVolumeClaim", min: { storage: "1Gi" }, max: { storage: "2Gi" } }],
        },
      }),
    ),
    post(
      `${PODS}?dryRun=All`,
      pod("a", {
        containers: [
          container(resources({ memory: "64Mi" }, { memory: "100Mi" })),
          { name: "d", image: "i", ...resources({ memory: "64Mi" }, { memory: "100Mi" }) },
        ],
      }),
      { view: seen },
    ),
    ...["500Mi", "3Gi"].map((storage) =>
      post(
        `${CLAIMS}?dryRun=All`,
        {
          apiVersion: "v1",
          kind: "PersistentVolumeClaim",
          metadata: { name: "a" },
          spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage } } },
        },
        { view: seen },
      ),
    ),
  ]),
  scenario("a namespace that enforces the level baseline", [
    given(patch("merge", NAMESPACE, labelled({ enforce: "baseline" }))),
    post(`${PODS}?dryRun=All`, pod("ok"), { view: seen }),
    ...BAD.map((spec) => post(`${PODS}?dryRun=All`, pod("bad", spec), { view: seen })),
  ]),
  scenario("a namespace that enforces the level restricted", [
    given(patch("merge", NAMESPACE, labelled({ enforce: "restricted", "enforce-version": "latest" }))),
    post(`${PODS}?dryRun=All`, pod("bare"), { view: seen }),
    post(`${PODS}?dryRun=All`, pod("ok", { containers: [container({ securityContext: secure })] }), {
      view: seen,
    }),
    post(
      `${PODS}?dryRun=All`,
      pod("root", {
        securityContext: { runAsUser: 0, runAsNonRoot: false },
        containers: [container({ securityContext: secure })],
      }),
      { view: seen },
    ),
    ...BAD.map((spec) => post(`${PODS}?dryRun=All`, pod("bad", spec), { view: seen })),
    post(
      "/apis/apps/v1/namespaces/$ns/deployments?dryRun=All",
      {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "d" },
        spec: {
          selector: { matchLabels: { a: "b" } },
          template: { metadata: { labels: { a: "b" } }, spec: { containers: [container()] } },
        },
      },
      { view: seen },
    ),
  ]),
  scenario("a namespace that warns", [
    given(patch("merge", NAMESPACE, labelled({ warn: "restricted" }))),
    post(`${PODS}?dryRun=All`, pod("a"), { view: seen }),
    post(
      "/apis/apps/v1/namespaces/$ns/deployments?dryRun=All",
      {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "d" },
        spec: {
          selector: { matchLabels: { a: "b" } },
          template: { metadata: { labels: { a: "b" } }, spec: { containers: [container()] } },
        },
      },
      { view: seen },
    ),
  ]),
]);
