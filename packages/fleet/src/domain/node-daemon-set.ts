import { MANAGED_BY, MANAGED_BY_LABEL } from "#api/fairlead.dev/names.ts";
import { NODE_AGENTS, NODE_AGENTS_ACCOUNT } from "#api/fairlead.dev/node-agents.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import type { DaemonSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Container, Probe, Volume, VolumeMount } from "@fairlead/kube/api/core/v1/types.ts";
import type { Applied } from "@fairlead/kube/types.ts";

/** The DaemonSet of `fairlead node`: that of the chart `fairlead-node` for a release of that name with default values. Pure. */

const STATE = "/var/lib/fairlead";
/** In which the agent looks for the socket of the container runtime. */
const RUN = "/run";
const CGROUPS = "/sys/fs/cgroup";
const REMOVE = "--remove";
const LOOPBACK = "127.0.0.1";

export interface WantedAgents {
  readonly image: string;
  /** The agents remove their nodes' parts of the network, and are ready when these are gone. */
  readonly isRemoving: boolean;
  /** Whether all that reach a node's addresses may read the metrics of its agent. Default: false, only the node itself may. */
  readonly exposesMetrics?: boolean;
}

export function nodeDaemonSet(wanted: WantedAgents): Applied<DaemonSet> {
  const selector = {
    "app.kubernetes.io/name": NODE_AGENTS,
    "app.kubernetes.io/instance": NODE_AGENTS,
    "app.kubernetes.io/component": "node",
  };
  const labels = { ...selector, "app.kubernetes.io/part-of": "fairlead" };
  return {
    metadata: {
      namespace: FLEET_SYSTEM_NAMESPACE,
      name: NODE_AGENTS,
      labels: { ...labels, [MANAGED_BY_LABEL]: MANAGED_BY },
    },
    spec: {
      selector: { matchLabels: selector },
      updateStrategy: {
        type: "RollingUpdate",
        // What is removed does not have to serve.
        rollingUpdate: { maxUnavailable: wanted.isRemoving ? "100%" : "10%" },
      },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: NODE_AGENTS_ACCOUNT,
          enableServiceLinks: false,
          hostNetwork: true,
          dnsPolicy: "ClusterFirstWithHostNet",
          hostPID: true,
          terminationGracePeriodSeconds: 10,
          priorityClassName: "system-node-critical",
          nodeSelector: { "kubernetes.io/os": "linux" },
          tolerations: [{ operator: "Exists" }],
          containers: [containerOf(wanted)],
          volumes: VOLUMES,
        },
      },
    },
  };
}

function containerOf({ image, isRemoving, exposesMetrics = false }: WantedAgents): Container {
  // The kubelet would ask the pod's address, which is the node's, and nothing listens there by default.
  const health = (path: string, more: Probe): Probe => ({
    httpGet: { host: LOOPBACK, path, port: "metrics" },
    ...more,
  });
  return {
    name: "node",
    image,
    imagePullPolicy: "IfNotPresent",
    args: [
      "node",
      "--log-level=info",
      "--node-name=$(NODE_NAME)",
      `--state-dir=${STATE}`,
      `--wireguard-cgroup=${CGROUPS}/fairlead-wireguard`,
      `--metrics=${exposesMetrics ? "" : LOOPBACK}:8085`,
      ...(isRemoving ? [REMOVE] : []),
    ],
    env: [{ name: "NODE_NAME", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } }],
    ports: [{ name: "metrics", containerPort: 8085 }],
    startupProbe: health("/healthz", { periodSeconds: 1, failureThreshold: 60 }),
    livenessProbe: health("/healthz", { periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 }),
    readinessProbe: health("/readyz", { periodSeconds: 5, timeoutSeconds: 3 }),
    securityContext: { privileged: true, readOnlyRootFilesystem: true, runAsUser: 0 },
    resources: { requests: { cpu: "50m", memory: "96Mi" }, limits: { memory: "512Mi" } },
    volumeMounts: MOUNTS,
  };
}

const MOUNTS: VolumeMount[] = [
  { name: "state", mountPath: STATE, mountPropagation: "Bidirectional" },
  { name: "run", mountPath: `/host${RUN}`, mountPropagation: "HostToContainer", readOnly: true },
  { name: "netns", mountPath: "/run/netns", mountPropagation: "HostToContainer", readOnly: true },
  { name: "cgroup", mountPath: CGROUPS },
];

const VOLUMES: Volume[] = [
  { name: "state", hostPath: { path: STATE, type: "DirectoryOrCreate" } },
  { name: "run", hostPath: { path: RUN, type: "Directory" } },
  { name: "netns", hostPath: { path: "/run/netns", type: "DirectoryOrCreate" } },
  { name: "cgroup", hostPath: { path: CGROUPS, type: "Directory" } },
];

/** Whether a member's agent made it. */
export function isOwn({ metadata: { name, labels } }: DaemonSet): boolean {
  return name === NODE_AGENTS && labels?.[MANAGED_BY_LABEL] === MANAGED_BY;
}

export function imageOf({ spec }: DaemonSet): string {
  return spec?.template.spec?.containers[0]?.image ?? "";
}

/** The tag of its image. */
export function versionOf(daemonSet: DaemonSet): string {
  return /:([^:/@]+)$/.exec(imageOf(daemonSet))?.[1] ?? "";
}

export function isRemoval({ spec }: DaemonSet): boolean {
  return spec?.template.spec?.containers[0]?.args?.includes(REMOVE) === true;
}

const NOTHING = {
  observedGeneration: 0,
  desiredNumberScheduled: 0,
  currentNumberScheduled: 0,
  updatedNumberScheduled: 0,
  numberAvailable: 0,
};

/** What a DaemonSet lacks to be rolled out, by the rules of `kubectl rollout status`. */
export function lackingOf({ metadata, status }: DaemonSet): string | undefined {
  const { observedGeneration, ...count } = { ...NOTHING, ...status };
  const wanted = count.desiredNumberScheduled;
  const missing = wanted - count.currentNumberScheduled;
  if (observedGeneration < (metadata.generation ?? 0))
    return "its latest generation is not observed; check that the cluster's kube-controller-manager runs";
  if (missing > 0)
    return `${missing} of ${wanted} nodes have no pod of it; see kubectl -n ${metadata.namespace ?? ""} describe daemonset ${metadata.name}: the namespace may not permit privileged pods`;
  if (count.updatedNumberScheduled < wanted)
    return `${count.updatedNumberScheduled} of ${wanted} nodes are updated`;
  if (count.numberAvailable < wanted) return `${count.numberAvailable} of ${wanted} nodes are ready`;
  return undefined;
}
