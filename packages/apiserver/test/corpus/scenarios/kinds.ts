import refusals from "../refusals.json" with { type: "json" };
import { kindOf, manifest, pathOf } from "../manifests.ts";
import { area, del, given, patch, post, scenario } from "../scenario.ts";

interface Whole {
  readonly path: string;
  readonly object: { readonly metadata?: object };
}

/** Their names say what they are, or others would notice them. */
const NOT_HERE = new Set(["ipaddress", "servicecidr", "apiservice"]);

/** One whole object of each kind. */
const whole = Object.entries(refusals as unknown as Readonly<Record<string, Whole>>).filter(
  ([name, { path }]) => !NOT_HERE.has(name) && !path.endsWith("/services"),
);

/** Fields other than the status that clients may try to change through `/status`. */
const METADATA = {
  labels: { l: "1" },
  annotations: { n: "1" },
  finalizers: ["example.com/f"],
};
/** One that is there, since a dependent of what is not there goes. */
const OWNER = { apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: "$owner.metadata.uid" };

const STATUS: readonly (readonly [kind: string, spec: object, status: object])[] = [
  ["Pod", { nodeName: "n" }, { phase: "Failed", reason: "Because" }],
  ["Deployment", { replicas: 5 }, { replicas: 2, updatedReplicas: 1 }],
  ["ReplicaSet", { replicas: 5 }, { replicas: 2, readyReplicas: 1 }],
  ["StatefulSet", { replicas: 5 }, { replicas: 2, currentReplicas: 1 }],
  [
    "DaemonSet",
    { minReadySeconds: 5 },
    { currentNumberScheduled: 1, numberMisscheduled: 0, desiredNumberScheduled: 2, numberReady: 1 },
  ],
  ["Job", { suspend: true }, { startTime: "2200-01-01T00:00:00Z", active: 1 }],
  ["CronJob", { suspend: true }, { lastScheduleTime: "2200-01-01T00:00:00Z" }],
  ["HorizontalPodAutoscaler", { maxReplicas: 9 }, { currentReplicas: 1, desiredReplicas: 2 }],
  [
    "PodDisruptionBudget",
    { minAvailable: 9 },
    { currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0, expectedPods: 1 },
  ],
  ["Ingress", { ingressClassName: "c" }, { loadBalancer: { ingress: [{ ip: "198.51.100.1" }] } }],
  ["ResourceQuota", { hard: { pods: "9" } }, { hard: { pods: "1" }, used: { pods: "0" } }],
  ["PersistentVolumeClaim", { volumeName: "v" }, { phase: "Lost" }],
  ["PersistentVolume", { storageClassName: "s" }, { phase: "Available", message: "m" }],
];

const owner = post("/api/v1/namespaces/$ns/configmaps", { metadata: { name: "owner" } }, { name: "owner" });

export const scenarios = area("kinds", [
  ...whole.map(([key, { path, object }]) => {
    const namespaced = path.includes("$ns");
    const name = namespaced ? "a" : "$id";
    return scenario(
      `what is made of a whole object: ${key}`,
      [post(path, { ...object, metadata: { ...object.metadata, name } }), del(`${path}/${name}`)],
      { namespaced },
    );
  }),
  ...STATUS.map(([name, spec, status]) => {
    const kind = kindOf(name);
    const item = `${pathOf(kind)}/${kind.namespaced ? "a" : "$id"}`;
    return scenario(
      `what may be changed through the status of a ${name}`,
      [
        kind.namespaced ? given(owner) : [],
        given(post(pathOf(kind), manifest(kind, { name: kind.namespaced ? "a" : "$id" }))),
        patch("merge", `${item}/status`, {
          metadata: { ...METADATA, ...(kind.namespaced ? { ownerReferences: [OWNER] } : {}) },
          spec,
          status,
        }),
        patch("merge", item, { status: { ...status, observedGeneration: 77 } }),
        given(patch("merge", item, { metadata: { finalizers: null } })),
        del(item),
      ],
      { namespaced: kind.namespaced },
    );
  }),
]);
