import type { OpenNetns } from "#netns/open.ts";

/** A pod as the container runtime of this machine knows it. */
export interface PodSandbox {
  readonly id: string;
  readonly podUid: string;
  readonly podNamespace: string;
  readonly podName: string;
  /** The pod is on the network of the machine. */
  readonly hostNetwork: boolean;
  /** Name of the RuntimeClass's handler; "" is the default. Pods of some handlers are virtual machines. */
  readonly runtimeHandler: string;
  /** File of the pod's network namespace. Undefined on the host network, and if the runtime does not report it. */
  readonly netns: string | undefined;
}

/** Finds the network namespaces of the pods that run on this machine. */
export interface PodRuntime extends AsyncDisposable {
  /**
   * Name and version of the runtime.
   *
   * @throws {FleetError} as `sandboxes`.
   */
  version(signal: AbortSignal): Promise<{ readonly name: string; readonly version: string }>;

  /**
   * Returns the sandboxes that are ready, one for each pod.
   *
   * @throws {FleetError} `CRI_UNAVAILABLE` if the runtime cannot be reached, `CRI_UNSUPPORTED` if it does not serve this
   *   version of the CRI, `CRI_FAILED` if it returns another error, `TIMED_OUT`, `ABORTED`.
   */
  sandboxes(signal: AbortSignal): Promise<readonly PodSandbox[]>;

  /**
   * Opens the pod's network namespace, and asks the runtime again whether it is still this pod's: paths and process ids
   * are used again.
   *
   * @returns Undefined if the sandbox has ended or has no network namespace of its own.
   * @throws {FleetError} as `sandboxes`.
   */
  openNetns(sandbox: PodSandbox, signal: AbortSignal): Promise<OpenNetns | undefined>;
}
