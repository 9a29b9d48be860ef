import { joinLines } from "@fairlead/base/print.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { defined } from "@fairlead/base/defined.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  AUTO_UPGRADE_PROFILES,
  type AutoUpgradeProfile,
  type StrategySpec,
  UPDATE_STRATEGIES,
  type UpdateStrategy,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { createOrChange, getNamed } from "../named.ts";
import { type ListOutput, renderData, type ResultOutput } from "../output.ts";
import { type Column, renderAge, renderTable } from "../table.ts";

/** UpdateStrategies and AutoUpgradeProfiles: what runs are made of. */

/** Creates a strategy, or replaces the stages of one. Runs that exist keep their copy. */
export function writeStrategy(
  hub: KubeClient,
  { name, spec }: { readonly name: string; readonly spec: StrategySpec },
  signal: AbortSignal,
): Promise<{ readonly object: UpdateStrategy; readonly isNew: boolean }> {
  return createOrChange(hub, UPDATE_STRATEGIES, { name, spec }, signal);
}

/** @throws {FleetError} `PRECONDITION_FAILED` where AutoUpgradeProfiles make runs of it. */
export async function deleteStrategy(hub: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  const { items } = await hub.list(AUTO_UPGRADE_PROFILES, { signal });
  const users = items.filter((it) => it.spec.updateStrategyName === name).map((it) => it.metadata.name);
  if (users.length > 0)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `cannot delete update strategy ${name}: AutoUpgradeProfiles make runs of it (${users.join(", ")}); give them another one, or delete them`,
    );
  await hub.delete(UPDATE_STRATEGIES, objectKey(undefined, name), { signal });
}

type ProfileSpec = AutoUpgradeProfile["spec"];

/**
 * Creates a profile, or changes what is given of one.
 *
 * @throws {FleetError} `OPTION_INVALID` for a new one without a channel.
 */
export async function writeProfile(
  hub: KubeClient,
  { name, spec }: { readonly name: string; readonly spec: Partial<ProfileSpec> },
  signal: AbortSignal,
): Promise<{ readonly object: AutoUpgradeProfile; readonly isNew: boolean }> {
  const { channel } = spec;
  if (channel === undefined) {
    await getNamed(hub, AUTO_UPGRADE_PROFILES, name, signal).catch((cause: unknown) => {
      throw new FleetError("OPTION_INVALID", `--channel is needed for a new AutoUpgradeProfile ${name}`, {
        cause,
      });
    });
    const object = await hub.mergePatch(
      AUTO_UPGRADE_PROFILES,
      objectKey(undefined, name),
      { spec },
      { signal },
    );
    return { object, isNew: false };
  }
  // These belong to one channel: the server refuses them in a profile of another one.
  const ofOther =
    channel === "TargetKubernetesVersion" ? {} : { targetKubernetesVersion: null, longTermSupport: null };
  return createOrChange(
    hub,
    AUTO_UPGRADE_PROFILES,
    { name, spec, change: { ...ofOther, ...defined(spec) } },
    signal,
  );
}

const STRATEGY_COLUMNS: readonly Column<UpdateStrategy>[] = [
  { head: "NAME", cell: (it) => it.metadata.name },
  { head: "STAGES", cell: (it) => it.spec.stages.map(({ name }) => name).join(",") },
];

const STRATEGY_WIDE: readonly Column<UpdateStrategy>[] = [
  ...STRATEGY_COLUMNS,
  {
    head: "GROUPS",
    cell: (it) =>
      it.spec.stages.flatMap(({ groups = [] }) => groups.map(({ name }) => name)).join(",") || "-",
  },
];

export function renderStrategies(strategies: readonly UpdateStrategy[], output: ListOutput): string {
  if (output === "name") return joinLines(strategies.map((it) => it.metadata.name));
  if (output === "json" || output === "yaml") return renderData(strategies, output);
  if (strategies.length === 0) return "there are no update strategies";
  return renderTable(output === "wide" ? STRATEGY_WIDE : STRATEGY_COLUMNS, strategies);
}

/** The stages with their groups, gates and waits, a line each. */
export function renderStrategy(strategy: UpdateStrategy, output: ResultOutput): string {
  if (output !== "text") return renderData(strategy, output);
  return joinLines([
    `update strategy ${strategy.metadata.name}`,
    ...strategy.spec.stages.map(({ name, groups = [], afterStageWaitInSeconds: wait, ...stage }, at) => {
      const gates = (stage.beforeGates?.length ?? 0) + (stage.afterGates?.length ?? 0);
      const parts = [
        ...(groups.length === 0 ? [] : [`groups ${groups.map((it) => it.name).join(", ")}`]),
        ...(gates === 0 ? [] : [`${gates} ${gates === 1 ? "gate" : "gates"}`]),
        ...(wait === undefined ? [] : [`wait of ${renderAge(wait * 1000)}`]),
      ];
      return `  ${at + 1}. stage ${name}${parts.length === 0 ? "" : `: ${parts.join("; ")}`}`;
    }),
  ]);
}

const PROFILE_COLUMNS = (nowMs: number): readonly Column<AutoUpgradeProfile>[] => [
  { head: "NAME", cell: (it) => it.metadata.name },
  {
    head: "CHANNEL",
    cell: ({ spec }) =>
      spec.targetKubernetesVersion === undefined
        ? spec.channel
        : `${spec.channel} ${spec.targetKubernetesVersion}`,
  },
  { head: "STRATEGY", cell: (it) => it.spec.updateStrategyName ?? "-" },
  { head: "DISABLED", cell: (it) => String(it.spec.disabled === true) },
  {
    head: "LAST TRIGGER",
    cell: ({ status: { lastTriggeredAt: at } = {} }) =>
      at === undefined ? "never" : renderAge(nowMs - Date.parse(at)),
  },
  { head: "STATUS", cell: (it) => it.status?.lastTriggerStatus ?? "-" },
];

const MESSAGE: Column<AutoUpgradeProfile> = {
  head: "MESSAGE",
  cell: ({ status }) => status?.lastTriggerError?.message ?? status?.lastTriggerMessage ?? "-",
};

export function renderProfiles(
  profiles: readonly AutoUpgradeProfile[],
  output: ListOutput,
  nowMs: number,
): string {
  if (output === "name") return joinLines(profiles.map((it) => it.metadata.name));
  if (output === "json" || output === "yaml") return renderData(profiles, output);
  if (profiles.length === 0) return "there are no AutoUpgradeProfiles";
  const columns = PROFILE_COLUMNS(nowMs);
  return renderTable(output === "wide" ? [...columns, MESSAGE] : columns, profiles);
}
