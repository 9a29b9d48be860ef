import { printText } from "@fairlead/base/print.ts";
import * as boots from "@fairlead/lab/reboot.ts";
import { openLab, untilInterrupted } from "./context.ts";
import { lockExisting } from "./faults.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface Options {
  readonly name: string;
  readonly powerCut?: true | undefined;
  readonly drain?: true | undefined;
  readonly restore: boolean;
}

export async function reboot(node: string, options: Options): Promise<void> {
  if (await inOwnNamespace()) return;
  const signal = untilInterrupted();
  using _lock = await lockExisting(options, signal);
  await boots.reboot(
    openLab(options.name),
    {
      node,
      isPowerCut: options.powerCut === true,
      drains: options.drain === true,
      loadsRules: options.restore,
    },
    (step) => printText(`  ${step}`),
    signal,
  );
  printText(`${node} has booted.`);
}
