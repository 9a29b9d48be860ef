import { printText } from "@fairlead/base/print.ts";
import { type ListOutput, renderData } from "@fairlead/fleet/cli/output.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { describeConditions } from "@fairlead/lab/link/conditions.ts";
import { type ClusterStatus, isLabWhole, type LabStatus, readLabStatus } from "@fairlead/lab/status.ts";
import { openLab, untilInterrupted } from "./context.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface StatusOptions {
  readonly name: string;
  readonly output: ListOutput;
}

export async function status(options: StatusOptions): Promise<void> {
  if (await inOwnNamespace()) return;
  const found = await readLabStatus(openLab(options.name), untilInterrupted());
  printText(render(found, options.output));
  if (!isLabWhole(found)) process.exitCode = UNHEALTHY;
}

/** As `fairlead status` ends. */
const UNHEALTHY = 3;

function render(found: LabStatus, output: ListOutput): string {
  switch (output) {
    case "json":
    case "yaml":
      return renderData(found, output);
    case "name":
      return found.clusters.map((it) => it.name).join("\n");
    case "text":
    case "wide":
      return tables(found, output === "wide");
    default:
      return output satisfies never;
  }
}

function tables(found: LabStatus, isWide: boolean): string {
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
      : `\n\nfairlead lab up --name ${found.name} restarts what is stopped.`;
  const silent = found.clusters.filter((it) => it.nodes === undefined).map((it) => it.name);
  const missing =
    silent.length === 0
      ? ""
      : `\n\nThe API server of ${silent.join(", ")} does not answer: it is stopped, its link is down, or this machine is busy.`;
  return `${clusters}${links(found)}${details}${missing}${hint}`;
}

/** The links that are not ordinary. */
function links({ conditions }: LabStatus): string {
  const rows = Object.entries(conditions);
  if (rows.length === 0) return "";
  return `\n\n${renderTable(
    [
      { head: "LINK OF", cell: ([name]) => name },
      { head: "CONDITIONS", cell: ([, it]) => describeConditions(it) },
    ],
    rows,
  )}`;
}

/** "2/2 ready", or "no answer". */
function renderCount(count: { readonly ready: number; readonly total: number } | undefined): string {
  return count === undefined ? "no answer" : `${count.ready}/${count.total}`;
}
