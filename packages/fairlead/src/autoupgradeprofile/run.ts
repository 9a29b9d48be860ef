import { printText } from "@fairlead/base/print.ts";
import { defined } from "@fairlead/base/defined.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import {
  AUTO_UPGRADE_PROFILES,
  type AutoUpgradeProfile,
  UPDATE_RUNS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { getNamed } from "@fairlead/fleet/cli/named.ts";
import { type ListOutput, renderData, type ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { draftOfProfile } from "@fairlead/fleet/cli/updates/actions.ts";
import { renderProfiles, writeProfile } from "@fairlead/fleet/cli/updates/templates.ts";
import { type HubFlags, onHub } from "#shared/on-hub.ts";
import { printResult } from "#shared/output.ts";

type WithResult = HubFlags & { readonly output: ResultOutput };
type Spec = AutoUpgradeProfile["spec"];

interface CreateFlags extends WithResult {
  readonly channel?: Spec["channel"] | undefined;
  readonly updateStrategyName?: string | undefined;
  readonly nodeImageSelection?: "Latest" | "Consistent" | undefined;
  readonly targetKubernetesVersion?: string | undefined;
  readonly longTermSupport?: true | undefined;
  readonly disabled?: boolean | undefined;
}

export function create(name: string, flags: CreateFlags): Promise<void> {
  return onHub("autoupgradeprofile create", flags, async ({ hub, deps, signal }) => {
    const { channel, updateStrategyName, nodeImageSelection: type } = flags;
    const { targetKubernetesVersion, longTermSupport, disabled } = flags;
    const spec = defined({
      channel,
      updateStrategyName,
      nodeImageSelection: type === undefined ? undefined : { type },
      targetKubernetesVersion,
      longTermSupport,
      disabled,
    });
    const { object, isNew } = await writeProfile(hub, { name, spec }, signal);
    deps.progress(`${isNew ? "created" : "changed"} AutoUpgradeProfile ${name}`);
    printResult(object, flags.output);
  });
}

export function list(flags: HubFlags & { readonly output: ListOutput }): Promise<void> {
  return onHub("autoupgradeprofile list", flags, async ({ hub, deps, signal }) => {
    const { items } = await hub.list(AUTO_UPGRADE_PROFILES, { signal });
    printText(renderProfiles(items, flags.output, clockOfServer(hub, deps.clock).now()));
  });
}

export function show(name: string, flags: WithResult): Promise<void> {
  return onHub("autoupgradeprofile show", flags, async ({ hub, deps, signal }) => {
    const profile = await getNamed(hub, AUTO_UPGRADE_PROFILES, name, signal);
    const nowMs = clockOfServer(hub, deps.clock).now();
    const { output } = flags;
    printText(output === "text" ? renderProfiles([profile], "wide", nowMs) : renderData(profile, output));
  });
}

export function remove(name: string, flags: WithResult): Promise<void> {
  return onHub("autoupgradeprofile delete", flags, async ({ hub, deps, signal }) => {
    const profile = await getNamed(hub, AUTO_UPGRADE_PROFILES, name, signal);
    await hub.delete(AUTO_UPGRADE_PROFILES, objectKey(undefined, name), { signal });
    deps.progress(`deleted AutoUpgradeProfile ${name}`);
    printResult(profile, flags.output);
  });
}

export function generate(profile: string, flags: WithResult & { readonly run: string }): Promise<void> {
  return onHub("autoupgradeprofile generate-update-run", flags, async ({ hub, deps, signal }) => {
    const draft = await draftOfProfile(hub, { name: flags.run, profile }, signal);
    const run = await hub.create(UPDATE_RUNS, draft, { signal });
    deps.progress(`created run ${flags.run}; start it with "fairlead updaterun start ${flags.run}"`);
    printResult(run, flags.output);
  });
}
