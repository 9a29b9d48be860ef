import { printText } from "@fairlead/base/print.ts";
import { statSync } from "node:fs";
import { systemClock } from "@fairlead/base/clock.ts";
import { type ListOutput, renderData } from "@fairlead/fleet/cli/output.ts";
import { renderAge, renderTable } from "@fairlead/fleet/cli/table.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { findLabProcesses } from "@fairlead/lab/processes.ts";
import { listLabs, readState } from "@fairlead/lab/state.ts";
import { stateRoot } from "./context.ts";
import { inOwnNamespace } from "./user-namespace.ts";

/** A lab that has a folder on this machine. */
interface LabEntry {
  readonly name: string;
  /** Undefined where `lab up` did not come so far. */
  readonly members: number | undefined;
  readonly processes: number;
  readonly ageMs: number;
  readonly kubeconfig: string;
}

export async function list({ output }: { readonly output: ListOutput }): Promise<void> {
  if (await inOwnNamespace()) return;
  const labs = readLabs(stateRoot(), systemClock.now());
  if (output === "json" || output === "yaml") printText(renderData({ labs }, output));
  else if (output === "name") for (const { name } of labs) printText(name);
  else printText(labs.length === 0 ? "There is no lab." : renderLabs(labs));
}

export function readLabs(root: string, nowMs: number): readonly LabEntry[] {
  return listLabs(root).map((name) => {
    const layout = labLayout(root, name);
    const { birthtimeMs, ctimeMs } = statSync(layout.root);
    return {
      name,
      members: readState(layout)?.topology.spec.members,
      processes: findLabProcesses(layout.root).length,
      // A file system that does not note births says 0.
      ageMs: Math.max(0, nowMs - (birthtimeMs > 0 ? birthtimeMs : ctimeMs)),
      kubeconfig: layout.kubeconfig,
    };
  });
}

export function renderLabs(labs: readonly LabEntry[]): string {
  return renderTable<LabEntry>(
    [
      { head: "LAB", cell: (it) => it.name },
      { head: "MEMBERS", cell: (it) => String(it.members ?? "-") },
      { head: "PROCESSES", cell: (it) => String(it.processes) },
      { head: "AGE", cell: (it) => renderAge(it.ageMs) },
      { head: "KUBECONFIG", cell: (it) => it.kubeconfig },
    ],
    labs,
  );
}
