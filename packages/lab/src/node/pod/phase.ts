import type { Container, ContainerStatus, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isSidecar, shouldRestart } from "./restart.ts";

/** The phase of a pod, by the states of its containers. Pure. Source: getPhase in pkg/kubelet/kubelet_pods.go. */

export type Phase = NonNullable<NonNullable<Pod["status"]>["phase"]>;

export interface PhaseInput {
  readonly pod: Pod;
  readonly init: readonly ContainerStatus[];
  readonly main: readonly ContainerStatus[];
  /** No container starts again. */
  readonly isEnding: boolean;
  readonly isRestartingAll: boolean;
}

export function phaseOf(input: PhaseInput): Phase {
  const { pod, init, main } = input;
  const { initContainers = [], containers = [] } = pod.spec ?? {};
  const isRunning = [...init, ...main].some((it) => it.state?.running !== undefined);
  const hasBegun = main.some((it) => endOf(it) !== undefined || it.state?.running !== undefined);
  const restarts = (container: Container, code: number): boolean =>
    input.isRestartingAll || (!input.isEnding && shouldRestart(pod, container, code));
  const inits = initContainers.map((container, at) => ({ container, status: init[at] }));
  if (!hasBegun) {
    const failed = inits.some(({ container, status }) => {
      const code = endOf(status)?.exitCode ?? 0;
      return !isSidecar(container) && code !== 0 && !restarts(container, code);
    });
    // A pod is not over while a sidecar of it still runs.
    if (failed && !isRunning) return "Failed";
    if (inits.some(({ container, status }) => isPending(container, status))) return "Pending";
  }
  const ends = main.map(endOf);
  if (main.some((it, at) => it.state?.running === undefined && ends[at] === undefined)) return "Pending";
  if (isRunning) return "Running";
  const willRun = containers.some((container, at) => restarts(container, ends[at]?.exitCode ?? 0));
  if (willRun) return "Running";
  return ends.every((it) => it?.exitCode === 0) ? "Succeeded" : "Failed";
}

function isPending(container: Container, status: ContainerStatus | undefined): boolean {
  if (isSidecar(container)) return status?.started !== true;
  return status?.state?.terminated?.exitCode !== 0;
}

/** How a container's last run ended, also where it waits to start again. */
function endOf(status: ContainerStatus | undefined) {
  return status?.state?.terminated ?? (status?.state?.waiting && status.lastState?.terminated);
}
