import { VERSION } from "@fairlead/base/version.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { PodAffinityTerm } from "@fairlead/kube/api/core/v1/affinity.ts";
import { DEPLOYMENTS, type Deployment } from "@fairlead/kube/api/apps/v1/types.ts";
import {
  type Container,
  type Probe,
  SERVICE_ACCOUNTS,
  type Service,
  SERVICES,
  type Toleration,
} from "@fairlead/kube/api/core/v1/types.ts";
import { DNS_SERVERS, INSTALLED_BY, INSTALLED_BY_LABEL, MEMBER_AGENT } from "#api/fairlead.dev/installed.ts";
import { bindingOf } from "#authz/policies/guard-rails.ts";
import { MEMBER_POLICIES } from "#authz/policies/startup-taint.ts";
import {
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { appliesAs, EVERYTHING } from "#authz/applied.ts";
import { PERMISSIONS_VARIABLE, permissionsDigest } from "#authz/digest.ts";
import { accessManifests, type Manifest } from "#authz/manifests.ts";
import {
  DNS_ACCESS,
  MEMBER_ACCESS,
  MEMBER_NODES_ACCESS,
  MEMBER_TAINTS_ACCESS,
  MEMBER_WORK_ACCESS,
  NODE_ACCESS,
  type ProgramAccess,
} from "#authz/programs.ts";
import { NODE_AGENTS, NODE_AGENTS_ACCOUNT, STARTUP_TAINT } from "#api/fairlead.dev/node-agents.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { POD_DISRUPTION_BUDGETS, type PodDisruptionBudget } from "@fairlead/kube/api/policy/v1/types.ts";
import { CONTAINER_SECURITY, POD_SECURITY } from "./security.ts";

/** The objects of a member, equal to those of the chart `fairlead-member` for a release of that name with default values. */

export interface MemberInstall {
  readonly image: string;
  readonly imagePullPolicy: "IfNotPresent" | "Always" | "Never";
  readonly replicas: number;
  /** Whether the cluster-set DNS is installed too. */
  readonly dns: boolean;
  /** Whether the agent may install `fairlead node`, as profiles ask for it, out of the repository of `image`. Default: false. */
  readonly nodes?: boolean;
  /** Whether all that reach a node's addresses may read the metrics of its `fairlead node`. Default: false. */
  readonly exposeNodeMetrics?: boolean;
  /** Whether the agent keeps new pods off nodes whose `fairlead node` has not written its policies. Default: false. */
  readonly startupTaint?: boolean;
  /** The ClusterRole of what placements may write in the member. Default: cluster-admin. Null: the agent applies nothing. */
  readonly placementRole?: string | null;
}

/**
 * Field manager of the installed objects: that of Helm, so that a release that adopts these objects
 * (`--take-ownership`) has no conflicts with a manager that no longer exists.
 */
export const INSTALL_MANAGER = "helm";

const namespace = FLEET_SYSTEM_NAMESPACE;

/** Of the Deployments. */
export function programsOf({ dns }: MemberInstall): readonly string[] {
  return dns ? [MEMBER_AGENT, DNS_SERVERS] : [MEMBER_AGENT];
}

/** In the order in which they are applied. */
export function memberManifests(install: MemberInstall): readonly Manifest[] {
  const member = deploymentOf(install, {
    name: MEMBER_AGENT,
    component: "member",
    account: `${MEMBER_AGENT}-sa`,
    args: [
      "member",
      "--log-level=info",
      "--metrics=:8080",
      ...(install.placementRole === null ? ["--no-placement"] : []),
      ...(install.nodes === true ? [`--node-image=${repositoryOf(install.image)}`] : []),
      ...(install.nodes === true && install.exposeNodeMetrics === true ? ["--expose-node-metrics"] : []),
      ...(install.startupTaint === true ? ["--startup-taint"] : []),
    ],
    ports: [{ name: "metrics", containerPort: 8080 }],
    readySeconds: 5,
    env: permissionsOf(install),
    // It takes the taint off, also off its own node.
    ...(install.startupTaint === true
      ? { tolerations: [{ key: STARTUP_TAINT, operator: "Exists" as const }] }
      : {}),
    resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "1Gi" } },
  });
  const dns = deploymentOf(install, {
    name: DNS_SERVERS,
    component: "dns",
    account: DNS_SERVERS,
    args: [
      "dns",
      "--log-level=info",
      "--listen=0.0.0.0:5353",
      "--zone=clusterset.local",
      "--fleetboard-zone=fleetboard.local",
      "--ttl=5",
      "--metrics=:9153",
    ],
    ports: [
      { name: "dns", containerPort: 5353, protocol: "UDP" },
      { name: "dns-tcp", containerPort: 5353, protocol: "TCP" },
      { name: "metrics", containerPort: 9153 },
    ],
    readySeconds: 2,
    resources: { requests: { cpu: "50m", memory: "96Mi" }, limits: { memory: "512Mi" } },
  });
  return [
    ...access(MEMBER_ACCESS, `${MEMBER_AGENT}-sa`, MEMBER_AGENT, "member"),
    { of: DEPLOYMENTS, object: member },
    ...budget(install, MEMBER_AGENT, "member"),
    ...(install.nodes === true ? nodeAccess() : []),
    ...(install.startupTaint === true ? taintAccess() : []),
    ...(install.placementRole === null ? [] : workAccess(install.placementRole ?? EVERYTHING)),
    ...(install.dns
      ? [
          ...access(DNS_ACCESS, DNS_SERVERS, DNS_SERVERS, "dns"),
          { of: SERVICES, object: dnsService() },
          { of: DEPLOYMENTS, object: dns },
          ...budget(install, DNS_SERVERS, "dns"),
        ]
      : []),
  ];
}

/** What the DaemonSet of node agents runs with, and the permission to write it. */
function nodeAccess(): Manifest[] {
  const installs = access(MEMBER_NODES_ACCESS, `${MEMBER_AGENT}-sa`, MEMBER_NODES_ACCESS.name, "member");
  return [
    ...access(NODE_ACCESS, NODE_AGENTS_ACCOUNT, NODE_AGENTS, "node"),
    ...installs.filter(({ of }) => of !== SERVICE_ACCOUNTS),
  ];
}

/** The permission to write Nodes, what a policy leaves of it, and the trust in what agents report. */
function taintAccess(): Manifest[] {
  const account = `${MEMBER_AGENT}-sa`;
  const patches = access(MEMBER_TAINTS_ACCESS, account, MEMBER_TAINTS_ACCESS.name, "member");
  return [
    ...MEMBER_POLICIES.map((object) => ({ of: VALIDATING_ADMISSION_POLICIES, object })),
    ...MEMBER_POLICIES.map((it) => ({ of: VALIDATING_ADMISSION_POLICY_BINDINGS, object: bindingOf(it) })),
    ...patches.filter(({ of }) => of !== SERVICE_ACCOUNTS),
  ];
}

/** What placements may write, and what the agent needs in addition. */
function workAccess(role: string): Manifest[] {
  const subject = { kind: "ServiceAccount", name: `${MEMBER_AGENT}-sa`, namespace } as const;
  const { of, object } = appliesAs(role, subject);
  const own = access(MEMBER_WORK_ACCESS, subject.name, MEMBER_WORK_ACCESS.name, "member");
  return [
    ...own.filter((it) => it.of !== SERVICE_ACCOUNTS),
    { of, object: { ...object, metadata: { ...object.metadata, labels: labelsOf("member") } } },
  ];
}

/** An image without its tag and digest. */
function repositoryOf(image: string): string {
  return image.replace(/@[^@]*$/, "").replace(/:[^:/]*$/, "");
}

interface Program {
  readonly name: string;
  readonly component: string;
  readonly account: string;
  readonly args: string[];
  readonly ports: NonNullable<Container["ports"]>;
  /** Unit: seconds. */
  readonly readySeconds: number;
  readonly resources: NonNullable<Container["resources"]>;
  readonly tolerations?: Toleration[];
  readonly env?: NonNullable<Container["env"]>;
}

/** Permissions that are granted here, for an agent of another release. Those of another release than this one are not known. */
function permissionsOf({
  image,
  nodes,
  startupTaint,
  placementRole,
}: MemberInstall): NonNullable<Container["env"]> {
  if (nodes !== true || !image.endsWith(`:${VERSION}`)) return [];
  const tasks = { installsNodes: true, setsTaints: startupTaint === true, places: placementRole !== null };
  return [{ name: PERMISSIONS_VARIABLE, value: permissionsDigest(tasks) }];
}

function selectorOf(component: string): Record<string, string> {
  return {
    "app.kubernetes.io/name": MEMBER_AGENT,
    "app.kubernetes.io/instance": MEMBER_AGENT,
    "app.kubernetes.io/component": component,
  };
}

function labelsOf(component: string): Record<string, string> {
  return {
    ...selectorOf(component),
    [INSTALLED_BY_LABEL]: INSTALLED_BY,
    "app.kubernetes.io/part-of": "fairlead",
  };
}

function access(program: ProgramAccess, account: string, name: string, component: string): Manifest[] {
  const labels = labelsOf(component);
  const roles = accessManifests({ ...program, name }, { kind: "ServiceAccount", name: account, namespace });
  const labelled = roles.map(({ of, object }) => ({
    of,
    object: { ...object, metadata: { ...object.metadata, labels } },
  }));
  const metadata = { name: account, namespace, labels };
  return [{ of: SERVICE_ACCOUNTS, object: { metadata } }, ...labelled];
}

function deploymentOf(install: MemberInstall, of: Program): Deployment {
  const { name, component, account, args, ports, readySeconds, resources, tolerations, env = [] } = of;
  const health = (path: string, more: Probe): Probe => ({ httpGet: { path, port: "metrics" }, ...more });
  const container: Container = {
    name: component,
    image: install.image,
    imagePullPolicy: install.imagePullPolicy,
    args,
    ...(env.length === 0 ? {} : { env }),
    ports,
    startupProbe: health("/healthz", { periodSeconds: 1, failureThreshold: 60 }),
    livenessProbe: health("/healthz", { periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 }),
    readinessProbe: health("/readyz", { periodSeconds: readySeconds, timeoutSeconds: 3 }),
    securityContext: CONTAINER_SECURITY,
    resources,
  };
  return {
    metadata: { name, namespace, labels: labelsOf(component) },
    spec: {
      replicas: install.replicas,
      selector: { matchLabels: selectorOf(component) },
      strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      template: {
        metadata: { labels: labelsOf(component) },
        spec: {
          serviceAccountName: account,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: 30,
          securityContext: POD_SECURITY,
          affinity: {
            podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: apart(component) },
          },
          ...defined({ tolerations }),
          containers: [container],
        },
      },
    },
  };
}

/** Replicas run on different nodes, and in different zones, if there are enough: as in the charts. */
function apart(component: string): { weight: number; podAffinityTerm: PodAffinityTerm }[] {
  const labelSelector = { matchLabels: selectorOf(component) };
  return (["kubernetes.io/hostname", "topology.kubernetes.io/zone"] as const).map((topologyKey, at) => ({
    weight: at === 0 ? 100 : 50,
    podAffinityTerm: { topologyKey, labelSelector },
  }));
}

/** One copy stays while nodes are drained. A single one could never be moved. */
function budget({ replicas }: MemberInstall, name: string, component: string): Manifest[] {
  if (replicas < 2) return [];
  const object: PodDisruptionBudget = {
    metadata: { name, namespace, labels: labelsOf(component) },
    spec: { minAvailable: 1, selector: { matchLabels: selectorOf(component) } },
  };
  return [{ of: POD_DISRUPTION_BUDGETS, object }];
}

function dnsService(): Service {
  return {
    metadata: { name: DNS_SERVERS, namespace, labels: labelsOf("dns") },
    spec: {
      ipFamilyPolicy: "SingleStack",
      selector: selectorOf("dns"),
      ports: [
        { name: "dns", port: 53, protocol: "UDP", targetPort: "dns" },
        { name: "dns-tcp", port: 53, protocol: "TCP", targetPort: "dns-tcp" },
      ],
    },
  };
}
