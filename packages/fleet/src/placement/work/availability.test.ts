import { describe, expect, it } from "vitest";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { type Availability, availabilityOf } from "./availability.ts";

function judge(id: string, { spec = {}, status = {} }: { spec?: unknown; status?: unknown }): Availability {
  const [group = "", kind = ""] = id.split("/");
  const object = { metadata: { name: "x", generation: 3 }, spec, status } as KubeObject;
  return availabilityOf({ group, kind }, object);
}

const MET = [
  { type: "Established", status: "True" },
  { type: "NamesAccepted", status: "True" },
];
const deployed = { observedGeneration: 3, availableReplicas: 2, updatedReplicas: 2 };
const stateful = {
  observedGeneration: 3,
  availableReplicas: 1,
  currentReplicas: 1,
  updatedReplicas: 1,
  currentRevision: "r1",
  updateRevision: "r1",
};
const daemons = {
  observedGeneration: 3,
  numberAvailable: 2,
  desiredNumberScheduled: 2,
  currentNumberScheduled: 2,
  updatedNumberScheduled: 2,
};
const two = { replicas: 2 };
const CRD = "apiextensions.k8s.io/CustomResourceDefinition";
const PDB = "policy/PodDisruptionBudget";

describe("availability", () => {
  it.each<[what: string, id: string, object: { spec?: unknown; status?: unknown }]>([
    ["a Deployment with all replicas", "apps/Deployment", { spec: two, status: deployed }],
    ["a Deployment of none", "apps/Deployment", { spec: { replicas: 0 }, status: { observedGeneration: 3 } }],
    [
      "a Deployment of one by default",
      "apps/Deployment",
      { status: { ...deployed, availableReplicas: 1, updatedReplicas: 1 } },
    ],
    ["a StatefulSet of one by default", "apps/StatefulSet", { status: stateful }],
    ["a DaemonSet on all nodes", "apps/DaemonSet", { status: daemons }],
    ["a DaemonSet without nodes", "apps/DaemonSet", { status: { observedGeneration: 3 } }],
    ["a ClusterIP Service", "/Service", { spec: { clusterIP: "10.0.0.1" } }],
    ["a headless Service", "/Service", { spec: { clusterIP: "None" } }],
    ["a NodePort Service", "/Service", { spec: { type: "NodePort", clusterIP: "10.0.0.1" } }],
    [
      "a LoadBalancer with an address",
      "/Service",
      { spec: { type: "LoadBalancer" }, status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } } },
    ],
    [
      "a LoadBalancer with a host name",
      "/Service",
      { spec: { type: "LoadBalancer" }, status: { loadBalancer: { ingress: [{ hostname: "lb" }] } } },
    ],
    ["an established CRD", CRD, { status: { conditions: MET } }],
    ["a budget that was observed", PDB, { status: { observedGeneration: 3 } }],
    [
      "a budget with a condition of this generation",
      PDB,
      {
        status: { observedGeneration: 3, conditions: [{ type: "DisruptionAllowed", observedGeneration: 3 }] },
      },
    ],
    ...[
      "/Namespace /Secret /ConfigMap /ServiceAccount /LimitRange /ResourceQuota",
      "rbac.authorization.k8s.io/Role rbac.authorization.k8s.io/ClusterRole",
      "rbac.authorization.k8s.io/RoleBinding rbac.authorization.k8s.io/ClusterRoleBinding",
      "networking.k8s.io/NetworkPolicy networking.k8s.io/IngressClass",
      "storage.k8s.io/CSIDriver storage.k8s.io/CSINode storage.k8s.io/CSIStorageCapacity",
      "storage.k8s.io/StorageClass apps/ControllerRevision scheduling.k8s.io/PriorityClass",
    ].flatMap((ids) => ids.split(" ").map((id): [string, string, object] => [`any ${id}`, id, {}])),
  ])("is there for %s", (_, id, object) => {
    expect(judge(id, object)).toBe("Available");
  });

  it.each<[what: string, id: string, object: { spec?: unknown; status?: unknown }]>([
    ["a Deployment that was not observed", "apps/Deployment", { spec: two }],
    [
      "a Deployment of an older generation",
      "apps/Deployment",
      { spec: two, status: { ...deployed, observedGeneration: 2 } },
    ],
    [
      "a Deployment with too few available",
      "apps/Deployment",
      { spec: two, status: { ...deployed, availableReplicas: 1 } },
    ],
    [
      "a Deployment with too few updated",
      "apps/Deployment",
      { spec: two, status: { ...deployed, updatedReplicas: 1 } },
    ],
    [
      "a Deployment with one unavailable",
      "apps/Deployment",
      { spec: two, status: { ...deployed, unavailableReplicas: 1 } },
    ],
    ["a StatefulSet with too few available", "apps/StatefulSet", { spec: { replicas: 3 }, status: stateful }],
    ["a StatefulSet with old replicas", "apps/StatefulSet", { status: { ...stateful, currentReplicas: 0 } }],
    [
      "a StatefulSet between two revisions",
      "apps/StatefulSet",
      { status: { ...stateful, updateRevision: "r2" } },
    ],
    [
      "a StatefulSet of an older generation",
      "apps/StatefulSet",
      { status: { ...stateful, observedGeneration: 2 } },
    ],
    ["a DaemonSet with too few", "apps/DaemonSet", { status: { ...daemons, numberAvailable: 1 } }],
    ["a DaemonSet with old pods", "apps/DaemonSet", { status: { ...daemons, updatedNumberScheduled: 1 } }],
    ["a Service without an address", "/Service", {}],
    [
      "a LoadBalancer without an address",
      "/Service",
      { spec: { type: "LoadBalancer", clusterIP: "10.0.0.1" } },
    ],
    ["a new CRD", CRD, {}],
    [
      "a CRD whose names are taken",
      CRD,
      { status: { conditions: [MET[0], { ...MET[1], status: "False" }] } },
    ],
    ["a new budget", PDB, {}],
    [
      "a budget with an old condition",
      PDB,
      {
        status: { observedGeneration: 3, conditions: [{ type: "DisruptionAllowed", observedGeneration: 2 }] },
      },
    ],
    ["a status of another form", "apps/Deployment", { spec: "x", status: [1] }],
    ["conditions of another form", CRD, { status: { conditions: ["x", null] } }],
  ])("is not there yet for %s", (_, id, object) => {
    expect(judge(id, object)).toBe("ManifestNotAvailableYet");
  });

  it.each([
    ["an ExternalName Service", "/Service", { spec: { type: "ExternalName" } }],
    ["a Job", "batch/Job", {}],
    ["a CronJob", "batch/CronJob", {}],
    ["a custom resource", "example.com/Widget", {}],
    ["a Deployment of another group", "example.com/Deployment", {}],
  ])("cannot be tracked for %s", (_, id, object) => {
    expect(judge(id, object)).toBe("NotTrackable");
  });
});
