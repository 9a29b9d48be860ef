/** The objects that the suite installs in a cluster in addition to Fairlead: servers, Services, and a client. */

import { ATTACH_LABEL } from "@fairlead/fleet/dataplane/pod-attachment/selection.ts";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const NAMESPACE = "fairlead-e2e";
export const CLIENT = "client";
/** Without an interface in a parallel network. */
export const PLAIN_CLIENT = "plain-client";
const SCRIPTS = "scripts";

type Manifest = Readonly<Record<string, unknown>>;

export function namespace(name = NAMESPACE): Manifest {
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } };
}

/** The same objects in another namespace. */
export function inNamespace(name: string, ...objects: readonly Manifest[]): readonly Manifest[] {
  return objects.map((it) => ({ ...it, metadata: { ...(it["metadata"] as object), namespace: name } }));
}

export function scripts(): Manifest {
  const read = (name: string): string =>
    readFileSync(fileURLToPath(new URL(`in-pod/${name}`, import.meta.url)), "utf8");
  const data = { "echo.mjs": read("echo.mjs"), "client.mjs": read("client.mjs") };
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: NAMESPACE, name: SCRIPTS }, data };
}

export interface Server {
  readonly name: string;
  readonly cluster: string;
  readonly image: string;
  readonly replicas: number;
  /** Default: Deployment. The pods of a StatefulSet have host names. */
  readonly kind?: "Deployment" | "StatefulSet";
}

export function server({ name, cluster, image, replicas, kind = "Deployment" }: Server): Manifest {
  return workload(
    { kind, name, replicas },
    {
      name: "echo",
      image,
      command: ["node", "/e2e/echo.mjs"],
      env: [
        { name: "CLUSTER", value: cluster },
        { name: "POD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
      ],
      ports: [{ name: "http", containerPort: 8080 }],
      readinessProbe: { httpGet: { path: "/readyz", port: "http" }, periodSeconds: 1 },
    },
  );
}

/** @param targets - What it asks without an end, as `NAME=URL`. */
export function client(name: string, image: string, targets: readonly string[]): Manifest {
  return workload(
    {
      kind: "Deployment",
      name,
      replicas: 1,
      labels: name === PLAIN_CLIENT ? { [ATTACH_LABEL]: "false" } : {},
    },
    {
      name: "client",
      image,
      command: ["node", "/e2e/client.mjs", "load", ...targets],
      // Nothing listens: policies of other clusters know named ports of pods, too.
      ports: [{ name: "unused", containerPort: 9090 }],
      // Lookups of names wait in Node's threads.
      env: [{ name: "UV_THREADPOOL_SIZE", value: "32" }],
    },
  );
}

interface Workload extends Pick<Server, "name" | "replicas"> {
  readonly kind: string;
  /** Of its pods. */
  readonly labels?: Readonly<Record<string, string>>;
}

function workload({ kind, name, replicas, labels: more = {} }: Workload, container: object): Manifest {
  const labels = { app: name };
  const securityContext = {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  };
  return {
    apiVersion: "apps/v1",
    kind,
    metadata: { namespace: NAMESPACE, name },
    spec: {
      replicas,
      ...(kind === "StatefulSet" ? { serviceName: name, podManagementPolicy: "Parallel" } : {}),
      selector: { matchLabels: labels },
      template: {
        metadata: { labels: { ...labels, ...more } },
        spec: {
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 65_532,
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [
            {
              ...container,
              imagePullPolicy: "IfNotPresent",
              securityContext,
              volumeMounts: [{ name: SCRIPTS, mountPath: "/e2e", readOnly: true }],
            },
          ],
          volumes: [{ name: SCRIPTS, configMap: { name: SCRIPTS } }],
        },
      },
    },
  };
}

export function service(name: string, more: Manifest = {}): Manifest {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: NAMESPACE, name },
    spec: {
      selector: { app: name },
      ipFamilyPolicy: "PreferDualStack",
      ports: [{ name: "http", port: 80, targetPort: "http" }],
      ...more,
    },
  };
}

/** Names that kubectl takes for one kind alone: two groups have kinds of these names. */
export const KINDS = {
  fleetExport: "serviceexports.networking.fleet.azure.com",
  mcsExport: "serviceexports.multicluster.x-k8s.io",
  mcsImport: "serviceimports.multicluster.x-k8s.io",
  placement: "clusterresourceplacements.placement.kubernetes-fleet.io",
  multiClusterService: "multiclusterservices.networking.fleet.azure.com",
} as const;

const metadata = (name: string) => ({ namespace: NAMESPACE, name });

export function mcsExport(name: string, annotations: Readonly<Record<string, string>> = {}): Manifest {
  return {
    apiVersion: "multicluster.x-k8s.io/v1beta1",
    kind: "ServiceExport",
    metadata: { ...metadata(name), annotations },
  };
}

export function fleetExport(name: string): Manifest {
  return {
    apiVersion: "networking.fleet.azure.com/v1beta1",
    kind: "ServiceExport",
    metadata: metadata(name),
  };
}

export function multiClusterService(name: string): Manifest {
  return {
    apiVersion: "networking.fleet.azure.com/v1alpha1",
    kind: "MultiClusterService",
    metadata: metadata(name),
    spec: { serviceImport: { name } },
  };
}

/** Admits pods of one cluster to those of an app, and no other. */
export function policyForCluster(app: string, cluster: string): Manifest {
  const from = [{ podSelector: { matchLabels: { "io.cilium.k8s.policy.cluster": cluster } } }];
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: metadata(app),
    spec: { podSelector: { matchLabels: { app } }, ingress: [{ from }] },
  };
}
