import { printText } from "@fairlead/base/print.ts";
import { UPDATE_STRATEGIES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { getNamed } from "@fairlead/fleet/cli/named.ts";
import type { ListOutput, ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { parseStages } from "@fairlead/fleet/cli/updates/draft.ts";
import {
  deleteStrategy,
  renderStrategies,
  renderStrategy,
  writeStrategy,
} from "@fairlead/fleet/cli/updates/templates.ts";
import { readNamedFile } from "#shared/files.ts";
import { type HubFlags, onHub } from "#shared/on-hub.ts";
import { printResult } from "#shared/output.ts";

type WithResult = HubFlags & { readonly output: ResultOutput };

export function create(name: string, flags: WithResult & { readonly stages: string }): Promise<void> {
  return onHub("updatestrategy create", flags, async ({ hub, deps, signal }) => {
    const spec = parseStages(await readNamedFile("stages", flags.stages), flags.stages);
    const { object, isNew } = await writeStrategy(hub, { name, spec }, signal);
    deps.progress(`${isNew ? "created" : "changed"} update strategy ${name}`);
    printResult(object, flags.output);
  });
}

export function list(flags: HubFlags & { readonly output: ListOutput }): Promise<void> {
  return onHub("updatestrategy list", flags, async ({ hub, signal }) => {
    const { items } = await hub.list(UPDATE_STRATEGIES, { signal });
    printText(renderStrategies(items, flags.output));
  });
}

export function show(name: string, flags: WithResult): Promise<void> {
  return onHub("updatestrategy show", flags, async ({ hub, signal }) => {
    printText(renderStrategy(await getNamed(hub, UPDATE_STRATEGIES, name, signal), flags.output));
  });
}

export function remove(name: string, flags: WithResult): Promise<void> {
  return onHub("updatestrategy delete", flags, async ({ hub, deps, signal }) => {
    const strategy = await getNamed(hub, UPDATE_STRATEGIES, name, signal);
    await deleteStrategy(hub, name, signal);
    deps.progress(`deleted update strategy ${name}`);
    printResult(strategy, flags.output);
  });
}
