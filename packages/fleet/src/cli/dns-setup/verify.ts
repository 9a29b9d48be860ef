import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Job, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";

/** Cluster names resolve only in pods, so a pod verifies them. */

/** As the member's chart labels what belongs to its DNS. */
const OF_DNS = "app.kubernetes.io/part-of=fairlead,app.kubernetes.io/component=dns";
/** For a pod to be placed, its image to be pulled, and a result to be noticed. Unit: seconds. */
const START_SECONDS = 120;

/** The addresses of the cluster-set DNS in this cluster; none where it is not installed. */
export async function fleetDnsAddresses(client: KubeClient, signal: AbortSignal): Promise<readonly string[]> {
  const { items } = await client.list(SERVICES, {
    namespace: FLEET_SYSTEM_NAMESPACE,
    labelSelector: OF_DNS,
    signal,
  });
  const { clusterIP, clusterIPs } = items[0]?.spec ?? {};
  return (clusterIPs ?? [clusterIP ?? ""]).filter((it) => it !== "" && it !== "None");
}

/** The image of the cluster-set DNS that runs here, which any of its pods may pull. */
export async function fleetImage(client: KubeClient, signal: AbortSignal): Promise<string | undefined> {
  const { items } = await client.list(DEPLOYMENTS, {
    namespace: FLEET_SYSTEM_NAMESPACE,
    labelSelector: OF_DNS,
    signal,
  });
  return items[0]?.spec?.template.spec?.containers[0]?.image;
}

/** The replicas of the cluster's DNS, as servers to ask: each reads its configuration in its own time. */
export async function dnsReplicas(client: KubeClient, signal: AbortSignal): Promise<readonly string[]> {
  const at = { namespace: "kube-system", signal };
  const services = await client.list(SERVICES, { ...at, labelSelector: "k8s-app=kube-dns" });
  const names = new Set(services.items.map((it) => it.metadata.name));
  const { items } = await client.list(ENDPOINT_SLICES, at);
  const found = items
    .filter((it) => names.has(it.metadata.labels?.[SERVICE_NAME_LABEL] ?? ""))
    .flatMap(({ endpoints, ports = [] }) => {
      const port = ports.find((it) => it.protocol === "UDP")?.port;
      if (port === undefined) return [];
      return endpoints
        .filter((it) => it.conditions?.ready !== false)
        .flatMap(({ addresses }) => addresses.slice(0, 1))
        .map((it) => (it.includes(":") ? `[${it}]:${port}` : `${it}:${port}`));
    });
  return [...new Set(found)].toSorted();
}

export interface Verification {
  readonly image: string;
  readonly zone: string;
  /** Servers to query in addition to the pod's own resolver. */
  readonly replicas: readonly string[];
  /** Whether the zone must no longer resolve. */
  readonly isGone: boolean;
  /** How long the cluster's DNS may take until it knows the zone. Unit: seconds. */
  readonly seconds: number;
}

/**
 * Has a pod resolve a name of the zone, and one of the cluster itself, by its own resolver, and the first by each replica.
 *
 * @throws {FleetError} `TIMED_OUT` when it cannot.
 */
export async function verifyInPod(
  client: KubeClient,
  verification: Verification,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const job = await client.create(JOBS, verifier(verification), { signal });
  const key = keyOf(job);
  const ended = (it: Job | undefined, type: string): boolean =>
    it?.status?.conditions?.some((condition) => condition.type === type && condition.status === "True") ===
    true;
  try {
    const last = await waitFor(
      client,
      {
        of: JOBS,
        key,
        timeoutMs: (verification.seconds + START_SECONDS) * 1000,
        until: (it) => it === undefined || ended(it, "Complete") || ended(it, "Failed"),
        message: () => `no pod of Job ${key} finished within ${verification.seconds + START_SECONDS} s`,
      },
      deps,
      signal,
    );
    if (!ended(last, "Complete"))
      throw new FleetError(
        "TIMED_OUT",
        (verification.isGone
          ? `after ${verification.seconds} s, replicas of the cluster's DNS still answer for ${verification.zone}, as seen by a pod of Job ${key}`
          : `a pod of Job ${key} cannot resolve names of ${verification.zone} (with each replica of the cluster's DNS) and of the cluster within ${verification.seconds} s`) +
          (await lastWords(client, job, signal)),
      );
  } finally {
    await client.delete(JOBS, key, { propagationPolicy: "Background" });
  }
}

/** Why the pod failed, as it says itself: of a name, of its image, or of flags that an older image does not know. */
async function lastWords(client: KubeClient, { metadata }: Job, signal: AbortSignal): Promise<string> {
  const { namespace = "", name } = metadata;
  const { items } = await client.list(PODS, { namespace, labelSelector: `job-name=${name}`, signal });
  const messages = items.map((it) => it.status?.containerStatuses?.[0]?.state?.terminated?.message ?? "");
  const line = messages.flatMap((it) => it.split("\n")).findLast((it) => it.trim() !== "");
  return line === undefined ? "" : `; it said: ${line.trim()}`;
}

function verifier({ image, zone, seconds, replicas, isGone }: Verification): Job {
  const security = {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  };
  const args = [
    "dns",
    "check",
    "--zone",
    zone,
    ...replicas.flatMap((it) => ["--also", it]),
    ...(isGone ? ["--gone"] : []),
    "--name",
    "kubernetes.default.svc",
    "--timeout",
    String(seconds),
  ];
  return {
    metadata: { generateName: "fairlead-dns-check-", name: "", namespace: FLEET_SYSTEM_NAMESPACE },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: seconds + START_SECONDS,
      ttlSecondsAfterFinished: 600,
      template: {
        spec: {
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 65_532,
            seccompProfile: { type: "RuntimeDefault" },
          },
          containers: [
            {
              name: "check",
              image,
              args,
              securityContext: security,
              terminationMessagePolicy: "FallbackToLogsOnError",
            },
          ],
        },
      },
    },
  };
}
