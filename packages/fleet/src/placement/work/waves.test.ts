import { describe, expect, it } from "vitest";
import { inWaves, waveOf } from "./waves.ts";

const CRD = "apiextensions.k8s.io/CustomResourceDefinition";

describe("the wave of a kind", () => {
  it.each<[number, string]>([
    [0, "/Namespace scheduling.k8s.io/PriorityClass"],
    [1, "networking.k8s.io/NetworkPolicy /ResourceQuota /LimitRange policy/PodSecurityPolicy"],
    [1, "policy/PodDisruptionBudget /ServiceAccount /Secret /ConfigMap storage.k8s.io/StorageClass"],
    [1, `/PersistentVolume /PersistentVolumeClaim ${CRD} networking.k8s.io/IngressClass`],
    [2, "rbac.authorization.k8s.io/ClusterRole rbac.authorization.k8s.io/Role"],
    [3, "rbac.authorization.k8s.io/ClusterRoleBinding rbac.authorization.k8s.io/RoleBinding"],
    [4, "/Service apps/Deployment apps/StatefulSet apps/DaemonSet apps/ReplicaSet /Pod"],
    [4, "/ReplicationController autoscaling/HorizontalPodAutoscaler batch/Job batch/CronJob"],
    [4, "networking.k8s.io/Ingress"],
    [5, "apiregistration.k8s.io/APIService"],
    [5, "admissionregistration.k8s.io/ValidatingWebhookConfiguration"],
    [5, "admissionregistration.k8s.io/MutatingWebhookConfiguration"],
    [6, "example.com/Widget serving.knative.dev/Service networking.fleet.azure.com/ServiceExport"],
  ])("is %i for %s", (wave, kinds) => {
    for (const id of kinds.split(" ")) {
      const [group = "", kind = ""] = id.split("/");
      expect([id, waveOf({ group, kind })]).toEqual([id, wave]);
    }
  });

  it("orders manifests, and keeps the order of those in one wave", () => {
    const of = (group: string, kind: string): { group: string; kind: string } => ({ group, kind });
    const [widget, deployment, secret, namespace] = [
      of("example.com", "Widget"),
      of("apps", "Deployment"),
      of("", "Secret"),
      of("", "Namespace"),
    ];
    const service = of("", "Service");
    expect(inWaves([widget, deployment, secret, service, namespace])).toEqual([
      [namespace],
      [secret],
      [deployment, service],
      [widget],
    ]);
  });
});
