import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { bool, crd, list, object, PLAIN_CONDITIONS, text, time } from "../crd-schema.ts";

/** ClusterProfile of `multicluster.x-k8s.io` (KEP-4322): a member, for programs that look for clusters to work with. */

export interface ClusterProfile extends KubeObject {
  spec: { displayName?: string; clusterManager: { name: string } };
  status?: {
    conditions?: Condition[];
    version?: { kubernetes?: string };
    /** How the API server of the cluster is reached. */
    accessProviders?: { name: string; cluster?: { server: string; "certificate-authority-data"?: string } }[];
  };
}

export const CLUSTER_MANAGER_LABEL = "x-k8s.io/cluster-manager";
/** As programs for KubeFleet look for them. */
export const CLUSTER_MANAGER = "KubeFleet";
export const CONTROL_PLANE_HEALTHY = "ControlPlaneHealthy";

export const CLUSTER_PROFILES = resource<ClusterProfile>(
  "multicluster.x-k8s.io/v1alpha1",
  "ClusterProfile",
  "clusterprofiles",
);

const PROVIDERS = list(
  object({
    "name!": text(),
    cluster: object({
      "server!": text("The URL of the API server."),
      "tls-server-name": text(),
      "insecure-skip-tls-verify": bool(),
      "certificate-authority": text(),
      "certificate-authority-data": text("PEM.", { format: "byte" }),
      "proxy-url": text(),
      "disable-compression": bool(),
      extensions: list(
        object({
          "name!": text(),
          "extension!": { type: "object", "x-kubernetes-preserve-unknown-fields": true },
        }),
      ),
    }),
  }),
);

export const CLUSTER_PROFILE_CRD: CustomResourceDefinition = crd({
  group: "multicluster.x-k8s.io",
  kind: "ClusterProfile",
  versions: [
    {
      name: "v1alpha1",
      schema: object(
        {
          "spec!": object({
            displayName: text("For people."),
            "clusterManager!": object({ "name!": text("What manages the cluster.") }, undefined, {
              "x-kubernetes-validations": [
                { rule: "self == oldSelf", message: "ClusterManager is immutable" },
              ],
            }),
          }),
          status: object({
            conditions: PLAIN_CONDITIONS,
            version: object({ kubernetes: text() }),
            properties: list(
              object({
                "name!": text(undefined, { minLength: 1, maxLength: 253 }),
                "value!": text(undefined, { minLength: 1, maxLength: 1024 }),
                lastObservedTime: time(),
              }),
            ),
            accessProviders: PROVIDERS,
            credentialProviders: PROVIDERS,
          }),
        },
        "A cluster of an inventory.",
      ),
    },
  ],
});
