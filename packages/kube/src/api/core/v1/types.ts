import { resource } from "../../meta/resource.ts";
import type { Condition, KubeObject, ObjectMeta } from "../../meta/types.ts";
import type { Affinity, TopologySpreadConstraint } from "./affinity.ts";

/** Kinds of the core group, cut to the fields this project reads or writes. */

export type IPFamily = "IPv4" | "IPv6";
export type Protocol = "TCP" | "UDP" | "SCTP";

export interface Namespace extends KubeObject {
  spec?: { finalizers?: string[] };
  status?: { phase?: "Active" | "Terminating"; conditions?: Condition[] };
}

export interface ServicePort {
  name?: string;
  protocol?: Protocol;
  appProtocol?: string;
  port: number;
  targetPort?: number | string;
  nodePort?: number;
}

export interface SessionAffinityConfig {
  /** Unit: seconds, 1 to 86400. */
  clientIP?: { timeoutSeconds?: number };
}

export interface ServiceSpec {
  type?: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
  selector?: Record<string, string>;
  ports?: ServicePort[];
  clusterIP?: string;
  clusterIPs?: string[];
  ipFamilies?: IPFamily[];
  ipFamilyPolicy?: "SingleStack" | "PreferDualStack" | "RequireDualStack";
  externalName?: string;
  externalIPs?: string[];
  externalTrafficPolicy?: "Cluster" | "Local";
  internalTrafficPolicy?: "Cluster" | "Local";
  trafficDistribution?: string;
  loadBalancerClass?: string;
  loadBalancerIP?: string;
  loadBalancerSourceRanges?: string[];
  allocateLoadBalancerNodePorts?: boolean;
  healthCheckNodePort?: number;
  publishNotReadyAddresses?: boolean;
  sessionAffinity?: "None" | "ClientIP";
  sessionAffinityConfig?: SessionAffinityConfig;
}

export interface LoadBalancerIngress {
  ip?: string;
  hostname?: string;
  ipMode?: string;
}

export interface Service extends KubeObject {
  spec?: ServiceSpec;
  status?: { loadBalancer?: { ingress?: LoadBalancerIngress[] }; conditions?: Condition[] };
}

export interface EndpointAddress {
  ip: string;
  hostname?: string;
  nodeName?: string;
  targetRef?: ObjectReference;
}

/** Deprecated in favour of EndpointSlice; people and older programs still write it. */
export interface Endpoints extends KubeObject {
  subsets?: {
    addresses?: EndpointAddress[];
    notReadyAddresses?: EndpointAddress[];
    ports?: { name?: string; port: number; protocol?: Protocol; appProtocol?: string }[];
  }[];
}

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
  binaryData?: Record<string, string>;
  immutable?: boolean;
}

export interface Secret extends KubeObject {
  type?: string;
  /** Base64. */
  data?: Record<string, string>;
  stringData?: Record<string, string>;
  immutable?: boolean;
}

export interface ServiceAccount extends KubeObject {
  secrets?: { name?: string }[];
  automountServiceAccountToken?: boolean;
}

export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  resourceVersion?: string;
  fieldPath?: string;
}

export interface CoreEvent extends KubeObject {
  involvedObject: ObjectReference;
  reason?: string;
  message?: string;
  type?: string;
  count?: number;
  firstTimestamp?: string | null;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  reportingComponent?: string;
  reportingInstance?: string;
  source?: { component?: string; host?: string };
  action?: string;
}

export interface NodeCondition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastHeartbeatTime?: string;
  lastTransitionTime?: string;
}

export interface NodeAddress {
  type: "InternalIP" | "ExternalIP" | "Hostname";
  address: string;
}

export interface Taint {
  key: string;
  value?: string;
  effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
  timeAdded?: string;
}

export interface Node extends KubeObject {
  spec?: {
    podCIDR?: string;
    podCIDRs?: string[];
    unschedulable?: boolean;
    taints?: Taint[];
    providerID?: string;
  };
  status?: {
    addresses?: NodeAddress[];
    conditions?: NodeCondition[];
    capacity?: Record<string, string>;
    allocatable?: Record<string, string>;
    daemonEndpoints?: { kubeletEndpoint?: { Port: number } };
    nodeInfo?: Record<string, string>;
    images?: { names?: string[]; sizeBytes?: number }[];
  };
}

export interface EnvVar {
  name: string;
  value?: string;
  valueFrom?: {
    fieldRef?: { apiVersion?: string; fieldPath: string };
    configMapKeyRef?: { name?: string; key: string; optional?: boolean };
    secretKeyRef?: { name?: string; key: string; optional?: boolean };
    resourceFieldRef?: ResourceFieldSelector;
    fileKeyRef?: { volumeName: string; path: string; key: string; optional?: boolean };
  };
}

export interface ResourceFieldSelector {
  /** Optional in a container's environment, where it is the container itself. */
  containerName?: string;
  resource: string;
  divisor?: string;
}

export interface EnvFromSource {
  prefix?: string;
  configMapRef?: { name?: string; optional?: boolean };
  secretRef?: { name?: string; optional?: boolean };
}

export interface Probe {
  httpGet?: {
    path?: string;
    port: number | string;
    host?: string;
    scheme?: string;
    httpHeaders?: { name: string; value: string }[];
  };
  tcpSocket?: { port: number | string; host?: string };
  exec?: { command?: string[] };
  grpc?: { port: number; service?: string };
  /** All five: seconds or counts, defaulted by the API server to 0, 1, 10, 1, 3. */
  initialDelaySeconds?: number;
  timeoutSeconds?: number;
  periodSeconds?: number;
  successThreshold?: number;
  failureThreshold?: number;
  terminationGracePeriodSeconds?: number;
}

export interface ContainerPort {
  name?: string;
  containerPort: number;
  protocol?: Protocol;
  hostPort?: number;
  hostIP?: string;
}

export interface VolumeMount {
  name: string;
  mountPath: string;
  subPath?: string;
  subPathExpr?: string;
  readOnly?: boolean;
  recursiveReadOnly?: string;
  mountPropagation?: string;
}

export interface ContainerRestartRule {
  action: "Restart" | "RestartAllContainers";
  exitCodes?: { operator: "In" | "NotIn"; values?: number[] };
}

export interface Container {
  name: string;
  image?: string;
  command?: string[];
  args?: string[];
  workingDir?: string;
  env?: EnvVar[];
  envFrom?: EnvFromSource[];
  ports?: ContainerPort[];
  volumeMounts?: VolumeMount[];
  readinessProbe?: Probe;
  livenessProbe?: Probe;
  startupProbe?: Probe;
  lifecycle?: Record<string, unknown>;
  imagePullPolicy?: string;
  resources?: { requests?: Record<string, string>; limits?: Record<string, string> };
  stdin?: boolean;
  tty?: boolean;
  securityContext?: Record<string, unknown>;
  stdinOnce?: boolean;
  terminationMessagePath?: string;
  terminationMessagePolicy?: "File" | "FallbackToLogsOnError";
  restartPolicy?: "Always" | "OnFailure" | "Never";
  restartPolicyRules?: ContainerRestartRule[];
}

export interface KeyToPath {
  key: string;
  path: string;
  mode?: number;
}

export interface DownwardFile {
  path: string;
  fieldRef?: { fieldPath: string };
  resourceFieldRef?: ResourceFieldSelector;
  mode?: number;
}

export interface VolumeProjection {
  configMap?: { name?: string; items?: KeyToPath[]; optional?: boolean };
  secret?: { name?: string; items?: KeyToPath[]; optional?: boolean };
  downwardAPI?: { items?: DownwardFile[] };
  serviceAccountToken?: { audience?: string; expirationSeconds?: number; path: string };
}

export interface Volume {
  name: string;
  configMap?: { name?: string; items?: KeyToPath[]; optional?: boolean; defaultMode?: number };
  secret?: { secretName?: string; items?: KeyToPath[]; optional?: boolean; defaultMode?: number };
  emptyDir?: { medium?: string; sizeLimit?: string };
  projected?: { sources?: VolumeProjection[]; defaultMode?: number };
  downwardAPI?: { items?: DownwardFile[]; defaultMode?: number };
  hostPath?: { path: string; type?: string };
  persistentVolumeClaim?: { claimName: string };
}

export interface Toleration {
  key?: string;
  operator?: string;
  value?: string;
  effect?: string;
  tolerationSeconds?: number;
}

export interface PodSpec {
  nodeName?: string;
  nodeSelector?: Record<string, string>;
  hostname?: string;
  hostnameOverride?: string;
  subdomain?: string;
  setHostnameAsFQDN?: boolean;
  hostNetwork?: boolean;
  hostPID?: boolean;
  hostIPC?: boolean;
  hostUsers?: boolean;
  shareProcessNamespace?: boolean;
  /** Unit: seconds. */
  activeDeadlineSeconds?: number;
  readinessGates?: { conditionType: string }[];
  runtimeClassName?: string;
  ephemeralContainers?: Container[];
  restartPolicy?: "Always" | "OnFailure" | "Never";
  /** Unit: seconds. */
  terminationGracePeriodSeconds?: number;
  serviceAccountName?: string;
  serviceAccount?: string;
  automountServiceAccountToken?: boolean;
  dnsPolicy?: "ClusterFirst" | "ClusterFirstWithHostNet" | "Default" | "None";
  dnsConfig?: { nameservers?: string[]; searches?: string[]; options?: { name?: string; value?: string }[] };
  initContainers?: Container[];
  containers: Container[];
  volumes?: Volume[];
  tolerations?: Toleration[];
  hostAliases?: { ip: string; hostnames?: string[] }[];
  securityContext?: Record<string, unknown>;
  schedulerName?: string;
  affinity?: Affinity;
  topologySpreadConstraints?: TopologySpreadConstraint[];
  schedulingGates?: { name: string }[];
  priorityClassName?: string;
  priority?: number;
  preemptionPolicy?: "PreemptLowerPriority" | "Never";
  overhead?: Record<string, string>;
  enableServiceLinks?: boolean;
  imagePullSecrets?: { name?: string }[];
}

export interface PodCondition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastProbeTime?: string | null;
  lastTransitionTime?: string;
  observedGeneration?: number;
}

export interface ContainerState {
  waiting?: { reason?: string; message?: string };
  running?: { startedAt?: string };
  terminated?: {
    exitCode: number;
    signal?: number;
    reason?: string;
    message?: string;
    startedAt?: string;
    finishedAt?: string;
    containerID?: string;
  };
}

export interface ContainerStatus {
  name: string;
  state?: ContainerState;
  lastState?: ContainerState;
  ready: boolean;
  started?: boolean;
  restartCount: number;
  image: string;
  imageID: string;
  containerID?: string;
  resources?: NonNullable<Container["resources"]>;
  allocatedResources?: Record<string, string>;
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean; recursiveReadOnly?: string }[];
  user?: { linux?: { uid: number; gid: number; supplementalGroups?: number[] } };
}

export interface Pod extends KubeObject {
  spec?: PodSpec;
  status?: {
    phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
    conditions?: PodCondition[];
    hostIP?: string;
    hostIPs?: { ip: string }[];
    podIP?: string;
    podIPs?: { ip: string }[];
    startTime?: string;
    containerStatuses?: ContainerStatus[];
    initContainerStatuses?: ContainerStatus[];
    qosClass?: string;
    reason?: string;
    message?: string;
    observedGeneration?: number;
  };
}

export interface PodTemplateSpec {
  metadata?: Partial<ObjectMeta>;
  spec?: PodSpec;
}

export const NAMESPACES = resource<Namespace>("v1", "Namespace", "namespaces", "Cluster");
export const SERVICES = resource<Service>("v1", "Service", "services");
export const ENDPOINTS = resource<Endpoints>("v1", "Endpoints", "endpoints");
export const CONFIG_MAPS = resource<ConfigMap>("v1", "ConfigMap", "configmaps");
export const SECRETS = resource<Secret>("v1", "Secret", "secrets");
export const SERVICE_ACCOUNTS = resource<ServiceAccount>("v1", "ServiceAccount", "serviceaccounts");
export const EVENTS = resource<CoreEvent>("v1", "Event", "events");
export const NODES = resource<Node>("v1", "Node", "nodes", "Cluster");
export const PODS = resource<Pod>("v1", "Pod", "pods");
