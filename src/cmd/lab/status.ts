import { renderTable } from "#cli/table.ts";
import { type ClusterStatus, type LabStatus, readLabStatus } from "#lab/status.ts";
import { FleetError } from "#base/errors.ts";
import { openLab, untilInterrupted } from "./context.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface StatusOptions {
  readonly name: string;
  readonly output: string;
}

export async function status(options: StatusOptions): Promise<void> {
  if (!["table", "wide", "json"].includes(options.output)) {
    throw new FleetError("OPTION_INVALID", `--output must be table, wide or json, got ${options.output}`);
  }
  if (await inOwnNamespace()) return;
  const found = await readLabStatus(openLab(options.name), untilInterrupted());
  if (options.output === "json") console.log(JSON.stringify(found, null, 2));
  else console.log(renderStatus(found, options.output === "wide"));
}

function renderStatus(found: LabStatus, isWide: boolean): string {
  const clusters = renderTable<ClusterStatus>(
    [
      { head: "CLUSTER", cell: (it) => it.name },
      { head: "API", cell: (it) => it.api },
      { head: "LINK", cell: (it) => it.link },
      {
        head: "PROGRAMS",
        cell: (it) =>
          `${it.programs.filter((program) => program.pid !== undefined).length}/${it.programs.length}`,
      },
      { head: "NODES", cell: (it) => renderCount(it.nodes) },
      { head: "PODS", cell: (it) => renderCount(it.pods) },
    ],
    found.clusters,
  );
  const programs = found.clusters.flatMap((it) => it.programs);
  const stopped = programs.filter((it) => it.pid === undefined);
  const listed = isWide ? programs : stopped;
  const details =
    listed.length === 0
      ? ""
      : `\n\n${renderTable(
          [
            { head: "PROGRAM", cell: (it) => it.name },
            { head: "PID", cell: (it) => String(it.pid ?? "stopped") },
            { head: "LOG", cell: (it) => it.log },
          ],
          listed,
        )}`;
  const hint =
    stopped.length === 0 && found.killed.length === 0
      ? ""
      : `\n\nfairlead lab up --name ${found.name} brings back what is stopped.`;
  return `${clusters}${details}${hint}`;
}

/** "2/2 ready", or that nobody answers. */
function renderCount(count: { readonly ready: number; readonly total: number } | undefined): string {
  return count === undefined ? "no answer" : `${count.ready}/${count.total}`;
}
