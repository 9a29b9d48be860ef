import * as faults from "#lab/faults.ts";
import { lockLab } from "#lab/state.ts";
import { DEFAULT_SPEC } from "#lab/topology.ts";
import { openLab, stateRoot, untilInterrupted } from "./context.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface FaultOptions {
  readonly name: string;
}

export async function kill(target: string, options: FaultOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const lab = openLab(options.name);
  using _lock = lockLab(stateRoot(), options.name);
  await faults.kill(lab, target, untilInterrupted());
  const named = options.name === DEFAULT_SPEC.name ? "" : `--name ${options.name} `;
  console.log(`${target} is dead. fairlead lab restore ${named}${target} brings it back.`);
}

export async function restore(target: string, options: FaultOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const lab = openLab(options.name);
  using _lock = lockLab(stateRoot(), options.name);
  await faults.restore(lab, target, () => {}, untilInterrupted());
  console.log(`${target} is back.`);
}
