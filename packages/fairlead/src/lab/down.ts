import { printNote, printText } from "@fairlead/base/print.ts";
import { createInterface } from "node:readline/promises";
import { systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { listLabs, lockLab } from "@fairlead/lab/state.ts";
import { type Removed, removeIfEmpty, removeLab } from "@fairlead/lab/teardown.ts";
import { checkLabName } from "@fairlead/lab/topology.ts";
import { stateRoot, untilInterrupted } from "./context.ts";
import { readLabs, renderLabs } from "./list.ts";
import { inOwnNamespace, leaveUserNamespace } from "./user-namespace.ts";

interface DownOptions {
  readonly name: string;
  readonly all?: true | undefined;
  readonly yes?: true | undefined;
}

/** Removes one lab, or all of them after a confirmation. A lab that does not exist is not an error. */
export async function down(options: DownOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const root = stateRoot();
  const signal = untilInterrupted();
  const names = options.all === true ? listLabs(root) : [options.name];
  if (options.all === true && options.yes !== true && names.length > 0 && !(await agrees(root, signal)))
    return;
  for (const name of names) await downOne(root, name, signal);
  if (names.length === 0) printText("There is no lab.");
  leaveUserNamespace(root);
}

/** Asks for confirmation, with a list of the labs, because a removed lab cannot be restored. */
async function agrees(root: string, signal: AbortSignal): Promise<boolean> {
  printNote(renderLabs(readLabs(root, systemClock.now())));
  if (!process.stdin.isTTY)
    throw new FleetError(
      "OPTION_INVALID",
      "cannot ask for confirmation of lab down --all: standard input is not a terminal; pass --yes",
    );
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await asking.question("Remove all of these? [y/N] ", { signal });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    asking.close();
  }
}

async function downOne(root: string, name: string, signal: AbortSignal): Promise<void> {
  checkLabName(name);
  const startMs = systemClock.monotonic();
  const removed = await removeLocked(root, name, signal);
  removeIfEmpty(root);
  const seconds = ((systemClock.monotonic() - startMs) / 1000).toFixed(1);
  if (removed.processes + removed.namespaces + removed.mounts === 0) printText(`Lab ${name} is not up.`);
  else
    printText(
      `Lab ${name} is down: ${removed.processes} processes, ${removed.namespaces} namespaces, ${removed.mounts} mounts removed (${seconds} s).`,
    );
}

async function removeLocked(root: string, name: string, signal: AbortSignal): Promise<Removed> {
  using _lock = await lockLab(root, name, { clock: systemClock, signal });
  return await removeLab(labLayout(root, name), { hostLink: `fl-${name}`, clock: systemClock }, signal);
}
