import { systemClock } from "#base/clock.ts";
import { labLayout } from "#lab/layout.ts";
import { listLabs, lockLab } from "#lab/state.ts";
import { type Removed, removeIfEmpty, removeLab } from "#lab/teardown.ts";
import { checkLabName } from "#lab/topology.ts";
import { stateRoot, untilInterrupted } from "./context.ts";
import { inOwnNamespace, leaveUserNamespace } from "./user-namespace.ts";

interface DownOptions {
  readonly name: string;
  readonly all?: true | undefined;
}

/** Takes one lab away, or all of them. A lab that is not there is no error. */
export async function down(options: DownOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const root = stateRoot();
  const names = options.all === true ? listLabs(root) : [options.name];
  for (const name of names) await downOne(root, name);
  if (names.length === 0) console.log("There is no lab.");
  leaveUserNamespace(root);
}

async function downOne(root: string, name: string): Promise<void> {
  checkLabName(name);
  const startMs = systemClock.monotonic();
  const removed = await removeLocked(root, name);
  removeIfEmpty(root);
  const seconds = ((systemClock.monotonic() - startMs) / 1000).toFixed(1);
  if (removed.processes + removed.namespaces + removed.mounts === 0) console.log(`Lab ${name} is not up.`);
  else
    console.log(
      `Lab ${name} is down: ${removed.processes} processes, ${removed.namespaces} namespaces, ${removed.mounts} mounts gone (${seconds} s).`,
    );
}

async function removeLocked(root: string, name: string): Promise<Removed> {
  using _lock = lockLab(root, name);
  return await removeLab(
    labLayout(root, name),
    { hostLink: `fl-${name}`, clock: systemClock },
    untilInterrupted(),
  );
}
