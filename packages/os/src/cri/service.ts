import { defineService, type Shape } from "./proto.ts";

/**
 * The part of the Container Runtime Interface that finds a pod's network namespace. Messages have only the fields that
 * we use. Source: pkg/apis/runtime/v1/api.proto of k8s.io/cri-api.
 */
export const MESSAGES = {
  VersionRequest: { version: [1, "string"] },
  VersionResponse: {
    version: [1, "string"],
    runtimeName: [2, "string"],
    runtimeVersion: [3, "string"],
    runtimeApiVersion: [4, "string"],
  },
  PodSandboxMetadata: {
    name: [1, "string"],
    uid: [2, "string"],
    namespace: [3, "string"],
    attempt: [4, "uint32"],
  },
  PodSandboxStateValue: { state: [1, "int32"] },
  PodSandboxFilter: { id: [1, "string"], state: [2, "PodSandboxStateValue"] },
  ListPodSandboxRequest: { filter: [1, "PodSandboxFilter"] },
  PodSandbox: {
    id: [1, "string"],
    metadata: [2, "PodSandboxMetadata"],
    state: [3, "int32"],
    runtimeHandler: [7, "string"],
  },
  ListPodSandboxResponse: { items: [1, "PodSandbox[]"] },
  PodSandboxStatusRequest: { podSandboxId: [1, "string"], verbose: [2, "bool"] },
  NamespaceOption: { network: [1, "int32"] },
  Namespace: { options: [2, "NamespaceOption"] },
  LinuxPodSandboxStatus: { namespaces: [1, "Namespace"] },
  PodSandboxStatus: {
    id: [1, "string"],
    metadata: [2, "PodSandboxMetadata"],
    state: [3, "int32"],
    linux: [6, "LinuxPodSandboxStatus"],
    runtimeHandler: [9, "string"],
  },
  PodSandboxStatusResponse: { status: [1, "PodSandboxStatus"], info: [2, "map"] },
} as const;

export const METHODS = {
  Version: ["VersionRequest", "VersionResponse"],
  ListPodSandbox: ["ListPodSandboxRequest", "ListPodSandboxResponse"],
  PodSandboxStatus: ["PodSandboxStatusRequest", "PodSandboxStatusResponse"],
} as const;

/** Full name of the service. */
export const RUNTIME_SERVICE = "runtime.v1.RuntimeService";

export const RuntimeService = defineService(RUNTIME_SERVICE, { messages: MESSAGES, methods: METHODS });

export type PodSandboxItem = Shape<typeof MESSAGES, "PodSandbox">;
export type PodSandboxAnswer = Shape<typeof MESSAGES, "PodSandboxStatusResponse">;

/** Values of the enum PodSandboxState. */
export const SANDBOX_STATE = { ready: 0, notReady: 1 } as const;
/** A value of the enum NamespaceMode: that of the machine. */
export const NAMESPACE_OF_NODE = 2;
