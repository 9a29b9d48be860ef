import { printText } from "@fairlead/base/print.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import * as faults from "@fairlead/lab/faults.ts";
import { lockLab } from "@fairlead/lab/state.ts";
import { DEFAULT_SPEC } from "@fairlead/lab/topology.ts";
import { openLab, stateRoot, untilInterrupted } from "./context.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface FaultOptions {
  readonly name: string;
}

export async function kill(target: string, options: FaultOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const signal = untilInterrupted();
  using _lock = await lockExisting(options, signal);
  await faults.kill(openLab(options.name), target, signal);
  const named = options.name === DEFAULT_SPEC.name ? "" : `--name ${options.name} `;
  printText(`${target} is dead. fairlead lab restore ${named}${target} brings it back.`);
}

export async function restore(target: string, options: FaultOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const signal = untilInterrupted();
  using _lock = await lockExisting(options, signal);
  const wasDead = await faults.restore(openLab(options.name), target, () => {}, signal);
  printText(wasDead ? `${target} is back.` : `${target} was not dead.`);
}

/** The lock of a lab that is there: nothing is made for another. */
export async function lockExisting({ name }: FaultOptions, signal: AbortSignal): Promise<Disposable> {
  openLab(name);
  return await lockLab(stateRoot(), name, { clock: systemClock, signal });
}
