import { escapeControls, oneLine } from "@fairlead/base/print.ts";

/** Tables as kubectl prints them: padded columns, upper-case heads, no borders, nothing behind the last column. */

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => string;
}

export function renderTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const cells = [
    columns.map((it) => it.head),
    ...rows.map((row) => columns.map((it) => oneLine(escapeControls(it.cell(row))))),
  ];
  const widths = columns.map((_, at) => Math.max(...cells.map((line) => line[at]?.length ?? 0)));
  return cells
    .map((line) =>
      line
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("   ")
        .trimEnd(),
    )
    .join("\n");
}

/** "3s", "4m12s", "5h3m", "2d4h": the age of something as people read it. */
export function renderAge(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return withRest(minutes, "m", seconds % 60, "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return withRest(hours, "h", minutes % 60, "m");
  return withRest(Math.floor(hours / 24), "d", hours % 24, "h");
}

function withRest(whole: number, unit: string, rest: number, restUnit: string): string {
  return rest === 0 ? `${whole}${unit}` : `${whole}${unit}${rest}${restUnit}`;
}
