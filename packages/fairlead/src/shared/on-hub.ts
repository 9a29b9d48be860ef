import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { loadContext } from "./contexts.ts";
import { FLAGS } from "./flags.ts";

/** Commands for people that work on the hub alone. */

export interface HubFlags {
  readonly kubeconfig?: string | undefined;
  readonly hubContext?: string | undefined;
  readonly hubKubeconfig?: string | undefined;
}

export interface HubContext {
  readonly hub: KubeClient;
  readonly deps: RuntimeDeps & { readonly progress: (step: string) => void };
  readonly signal: AbortSignal;
}

/** @param command - What people type after "fairlead". */
export async function onHub(
  command: string,
  flags: HubFlags,
  body: (context: HubContext) => Promise<void>,
): Promise<void> {
  await runForPeople(command, async ({ deps, signal }) => {
    const named = { file: flags.hubKubeconfig, context: flags.hubContext };
    const config = await loadContext(named, flags.kubeconfig, process.env);
    await using hub = connect(config, deps);
    await checkReachable(hub, { who: "the hub", config }, deps, signal);
    await body({ hub, deps: { ...deps, progress: sayStep }, signal });
  });
}

export const HUB_CONTEXT_FLAG = [
  FLAGS.hubContext,
  "kubeconfig context with administrator access to the hub; default: the current context",
] as const;
/** The hub of commands that change nothing. */
export const HUB_READER_FLAG = [
  FLAGS.hubContext,
  "kubeconfig context with read access to the hub; default: the current context",
] as const;
export const HUB_KUBECONFIG_FLAG = [
  FLAGS.hubKubeconfig,
  "kubeconfig file of the hub; default: --kubeconfig",
] as const;
