import { readNamedFile } from "#shared/files.ts";
import { printText } from "@fairlead/base/print.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import {
  type NODE_IMAGE_SELECTIONS,
  UPDATE_RUNS,
  type UpdateRun,
  type UpdateState,
  type UpgradeType,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import type { ListOutput, ResultOutput } from "@fairlead/fleet/cli/output.ts";
import {
  draftOfProfile,
  getRun,
  parseTarget,
  preview,
  skipIn,
  startRun,
  stopRun,
} from "@fairlead/fleet/cli/updates/actions.ts";
import { deleteRun, untilState } from "@fairlead/fleet/cli/updates/run-end.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { draftRun, parseStages, type RunDraft } from "@fairlead/fleet/cli/updates/draft.ts";
import { renderPlan, renderRun, renderRuns } from "@fairlead/fleet/cli/updates/render.ts";
import { followObject } from "@fairlead/fleet/cli/follow.ts";
import { hasEnded } from "@fairlead/fleet/updates/clusters/needs.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { type HubContext, type HubFlags, onHub } from "#shared/on-hub.ts";
import { Screen } from "#shared/screen.ts";

/** The code to end with where members failed: it differs from that of a command that failed. */
const UNHEALTHY = 3;

interface WithResult extends HubFlags {
  readonly output: ResultOutput;
}

interface DraftFlags extends WithResult {
  readonly upgradeType?: UpgradeType | undefined;
  readonly kubernetesVersion?: string | undefined;
  readonly componentsVersion?: string | undefined;
  readonly nodeImageSelection?: (typeof NODE_IMAGE_SELECTIONS)[number] | undefined;
  readonly nodeImageVersion?: readonly string[] | undefined;
  readonly updateStrategyName?: string | undefined;
  readonly stages?: string | undefined;
}

async function draftOf(flags: DraftFlags): Promise<RunDraft> {
  const { stages: file } = flags;
  const text = file === undefined ? undefined : await readNamedFile("manifest", file);
  return {
    upgradeType: flags.upgradeType ?? (flags.componentsVersion === undefined ? "Full" : "Components"),
    kubernetesVersion: flags.kubernetesVersion,
    componentsVersion: flags.componentsVersion,
    nodeImageSelection: flags.nodeImageSelection,
    nodeImageVersions: flags.nodeImageVersion ?? [],
    updateStrategyName: flags.updateStrategyName,
    strategy: text === undefined || file === undefined ? undefined : parseStages(text, file),
  };
}

const nowOf = ({ hub, deps }: HubContext): number => clockOfServer(hub, deps.clock).now();

export function plan(name: string | undefined, flags: DraftFlags): Promise<void> {
  return onHub("updaterun plan", flags, async (context) => {
    const { hub, signal } = context;
    const run = name === undefined ? draftRun("new", await draftOf(flags)) : await getRun(hub, name, signal);
    const result = await preview(hub, run, nowOf(context), signal);
    printText(renderPlan(run, result, flags.output));
    if (result.status.status.error !== undefined) process.exitCode = UNHEALTHY;
  });
}

interface CreateFlags extends DraftFlags {
  readonly start?: true | undefined;
  readonly fromProfile?: string | undefined;
}

export function create(name: string, flags: CreateFlags): Promise<void> {
  return onHub("updaterun create", flags, async (context) => {
    const { hub, signal, deps } = context;
    const { fromProfile: profile } = flags;
    const draft =
      profile === undefined
        ? draftRun(name, await draftOf(flags))
        : await draftOfProfile(hub, { name, profile }, signal);
    const state = flags.start === true ? { state: "Run" as const } : {};
    const wanted = { ...draft, spec: { ...draft.spec, ...state } };
    const run = await hub.create(UPDATE_RUNS, wanted, { signal }).catch((error: unknown) => {
      if (!hasCode(error, "API_ALREADY_EXISTS", "API_CONFLICT")) throw error;
      const message = `there is an update run ${name} already; choose another name`;
      throw new FleetError("OPTION_INVALID", message);
    });
    const next = flags.start === true ? "it starts" : `start it with "fairlead updaterun start ${name}"`;
    deps.progress(`created run ${name}; ${next}`);
    if (flags.output !== "text") printText(renderRun(run, flags.output, nowOf(context)));
  });
}

export function act(word: "start" | "resume" | "stop", name: string, flags: WithResult): Promise<void> {
  return onHub(`updaterun ${word}`, flags, async (context) => {
    const { hub, signal, deps } = context;
    const before = await getRun(hub, name, signal);
    const run =
      word === "stop" ? await stopRun(hub, before, signal) : await startRun(hub, before, signal, word);
    deps.progress(`run ${name}: ${word === "stop" ? `it stops${finishing(run)}` : DONE[word]}`);
    if (flags.output !== "text") printText(renderRun(run, flags.output, nowOf(context)));
  });
}

const DONE = { start: "it starts", resume: "it continues" } as const;

function finishing(run: UpdateRun): string {
  return (run.status?.counts?.Running ?? 0) > 0 ? "; members that are being upgraded finish" : "";
}

export function skip(
  name: string,
  flags: WithResult & { readonly targets: readonly string[] },
): Promise<void> {
  return onHub("updaterun skip", flags, async (context) => {
    const { hub, signal, deps } = context;
    const targets = flags.targets.map(parseTarget);
    const run = await skipIn(hub, await getRun(hub, name, signal), targets, signal);
    deps.progress(`run ${name}: skipped ${flags.targets.join(", ")}${finishing(run)}`);
    if (flags.output !== "text") printText(renderRun(run, flags.output, nowOf(context)));
  });
}

export function list(flags: HubFlags & { readonly output: ListOutput }): Promise<void> {
  return onHub("updaterun list", flags, async ({ hub, signal }) => {
    const { items } = await hub.list(UPDATE_RUNS, { signal });
    printText(renderRuns(items, flags.output));
  });
}

export function status(
  name: string,
  flags: WithResult & { readonly watch?: true | undefined },
): Promise<void> {
  return onHub("updaterun status", flags, async (context) => {
    const { hub, deps, signal } = context;
    let last = await getRun(hub, name, signal);
    if (flags.watch !== true) printText(renderRun(last, flags.output, nowOf(context)));
    else {
      const screen = new Screen();
      const show = (run: UpdateRun): boolean => {
        last = run;
        screen.show(renderRun(run, flags.output, nowOf(context)));
        return hasEnded(run);
      };
      await followObject(hub, { of: UPDATE_RUNS, key: objectKey(undefined, name) }, show, { deps, signal });
    }
    const { outcome = "Succeeded" } = last.status ?? {};
    if (outcome !== "Succeeded") process.exitCode = UNHEALTHY;
  });
}

/** Unit: seconds. */
const MOST_WAIT = 7 * 86_400;

export function wait(
  name: string,
  flags: WithResult & { readonly for?: UpdateState | undefined; readonly timeout: string },
): Promise<void> {
  return onHub("updaterun wait", flags, async (context) => {
    const { hub, deps, signal } = context;
    const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 1, max: MOST_WAIT }) * 1000;
    await getRun(hub, name, signal);
    const run = await untilState(hub, { name, state: flags.for, timeoutMs }, deps, signal);
    const { outcome } = run.status ?? {};
    if (flags.output === "text")
      printText(`run ${name} is ${outcome ?? run.status?.status.state ?? "NotStarted"}`);
    else printText(renderRun(run, flags.output, nowOf(context)));
    if ((outcome ?? "Succeeded") !== "Succeeded") process.exitCode = UNHEALTHY;
  });
}

export function remove(name: string, flags: WithResult): Promise<void> {
  return onHub("updaterun delete", flags, async (context) => {
    const { hub, deps, signal } = context;
    const run = await getRun(hub, name, signal);
    await deleteRun(hub, run, signal);
    deps.progress(`deleted run ${name}`);
    if (flags.output !== "text") printText(renderRun(run, flags.output, nowOf(context)));
  });
}
