import type { Deployment } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Job } from "@fairlead/kube/api/batch/v1/types.ts";
import type { Namespace, PodSpec, PodTemplateSpec, Service } from "@fairlead/kube/api/core/v1/types.ts";
import { namespaceOfRun, RUN_LABEL } from "#api/fairlead.dev/names.ts";
import type { ServiceExport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { ATTACH_LABEL } from "#dataplane/pod-attachment/selection.ts";
import { type ProbePlan, SERVER_PORT } from "./probes.ts";

/** What a run creates in each cluster. Pure. */

const SERVER = "server";
/** Label selector of the server pods in the namespace of a run. */
export const SERVER_PODS = `app=${SERVER}`;
export const PROBE_JOB = "probe";

export interface Run {
  readonly id: string;
  readonly namespace: string;
}

export interface Participant {
  /** As its context. */
  readonly name: string;
  /** Differs between the clusters of a run: services have it in their names, so that each has one exporter. */
  readonly number: number;
  readonly image: string;
}

export function runOf(id: string): Run {
  return { id, namespace: namespaceOfRun(id) };
}

/** The exported service with cluster-set addresses of a participant, and the headless one. */
export function serviceNames({ number }: Pick<Participant, "number">): {
  readonly service: string;
  readonly pods: string;
} {
  return { service: `service-${number}`, pods: `pods-${number}` };
}

export function namespaceOf({ id, namespace }: Run): Namespace {
  return {
    metadata: {
      name: namespace,
      labels: { [RUN_LABEL]: id, "pod-security.kubernetes.io/enforce": "restricted" },
    },
  };
}

export function serverOf(run: Run, participant: Participant): Deployment {
  const labels = { app: SERVER };
  const args = ["verify-pod", "serve", "--cluster", participant.name];
  return {
    metadata: { ...metadata(run), name: SERVER },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: template(run, { ...participant, labels, args }),
    },
  };
}

export function servicesOf(run: Run, participant: Participant): readonly Service[] {
  const { service, pods } = serviceNames(participant);
  const spec = {
    selector: { app: SERVER },
    ipFamilyPolicy: "PreferDualStack" as const,
    ports: [
      { name: "tcp", protocol: "TCP" as const, port: SERVER_PORT },
      { name: "udp", protocol: "UDP" as const, port: SERVER_PORT },
    ],
  };
  return [
    { metadata: { ...metadata(run), name: service }, spec },
    { metadata: { ...metadata(run), name: pods }, spec: { ...spec, clusterIP: "None" } },
  ];
}

export function exportsOf(run: Run, participant: Participant): readonly ServiceExport[] {
  return Object.values(serviceNames(participant)).map((name) => ({ metadata: { ...metadata(run), name } }));
}

export function probeOf(
  run: Run,
  participant: Participant,
  plan: ProbePlan & { readonly timeoutSeconds: number },
): Job {
  const { timeoutSeconds, ...rest } = plan;
  const args = ["verify-pod", "probe", "--plan", JSON.stringify(rest)];
  const { spec, ...pod } = template(run, { ...participant, labels: { app: PROBE_JOB }, args });
  return {
    metadata: { ...metadata(run), name: PROBE_JOB },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: timeoutSeconds,
      template: { ...pod, spec: { ...(spec ?? { containers: [] }), restartPolicy: "Never" } },
    },
  };
}

function metadata({ id, namespace }: Run): { namespace: string; labels: Record<string, string> } {
  return { namespace, labels: { [RUN_LABEL]: id } };
}

function template(
  { id }: Run,
  of: { readonly image: string; readonly labels: Record<string, string>; readonly args: string[] },
): PodTemplateSpec {
  return {
    metadata: { labels: { ...of.labels, [RUN_LABEL]: id, [ATTACH_LABEL]: "true" } },
    spec: {
      ...RESTRICTED,
      containers: [
        {
          name: "verify",
          image: of.image,
          imagePullPolicy: "IfNotPresent",
          args: of.args,
          ...(of.labels["app"] === SERVER
            ? { readinessProbe: { tcpSocket: { port: SERVER_PORT }, periodSeconds: 1 } }
            : {}),
          terminationMessagePolicy: "FallbackToLogsOnError",
          securityContext: {
            allowPrivilegeEscalation: false,
            capabilities: { drop: ["ALL"] },
            readOnlyRootFilesystem: true,
          },
          // The single executable unpacks its native library there.
          volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
          resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { memory: "512Mi" } },
        },
      ],
      volumes: [{ name: "tmp", emptyDir: {} }],
    },
  };
}

/** Pod Security "restricted". It allows this sysctl, by which a pod may ping without the capability NET_RAW (icmp(7)). */
const RESTRICTED = {
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  terminationGracePeriodSeconds: 1,
  securityContext: {
    runAsNonRoot: true,
    runAsUser: 65_532,
    runAsGroup: 65_532,
    seccompProfile: { type: "RuntimeDefault" },
    sysctls: [{ name: "net.ipv4.ping_group_range", value: "0 2147483647" }],
  },
} satisfies Partial<PodSpec>;
