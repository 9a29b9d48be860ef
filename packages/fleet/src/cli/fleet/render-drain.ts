import { joinLines } from "@fairlead/base/print.ts";
import { renderData, type ResultOutput } from "../output.ts";
import type { DrainResult } from "./drain.ts";
import type { PlacementDrain } from "./drain-placements.ts";

export function renderDrain(result: DrainResult, output: ResultOutput): string {
  if (output !== "text") return renderData(result, output);
  if (result.dryRun === true) return joinLines(dryRun(result));
  return joinLines([...sentences(result), ...ofPlacements(result)]);
}

function sentences({ cluster, mode, carriedOutBy, servedOnlyHere }: DrainResult): string[] {
  const by = carriedOutBy.length === 0 ? "" : ` (applied by ${carriedOutBy.join(", ")})`;
  if (mode === "None") return [`${cluster} gets new requests again${by}`];
  const fate = mode === "Hard" ? "their requests are no longer served" : "they continue to be served here";
  return [
    `${cluster} is drained${by}`,
    ...(servedOnlyHere.length === 0
      ? []
      : [`No other cluster can serve these services; ${fate}:`, ...servedOnlyHere.map((it) => `  ${it}`)]),
  ];
}

function dryRun({ cluster, mode, servedOnlyHere, cordoned, placements = [] }: DrainResult): string[] {
  const nothing = "Nothing was changed.";
  if (mode === "None") return [`${cluster} would get new requests again. ${nothing}`];
  const fate = mode === "Hard" ? "would not be served" : "would continue to be served here";
  return [
    `${cluster} would be drained${cordoned === true ? " and cordoned" : ""}. ${nothing}`,
    ...(servedOnlyHere.length === 0
      ? ["Another cluster can serve each service that it serves."]
      : [
          `No other cluster can serve these services, which ${fate}:`,
          ...servedOnlyHere.map((it) => `  ${it}`),
        ]),
    ...placements.map(describe),
  ];
}

function describe({ kind, placement, outcome, message }: PlacementDrain): string {
  return `  ${kind} ${placement}: ${OUTCOMES[outcome]}: ${message}`;
}

const OUTCOMES: Readonly<Record<PlacementDrain["outcome"], string>> = {
  Bound: "would be evicted",
  Requested: "eviction requested",
  Evicted: "evicted, its resources are being removed",
  Removed: "evicted",
  Refused: "refused",
  Invalid: "cannot be evicted",
};

function ofPlacements({ cluster, cordoned, placements = [] }: DrainResult): string[] {
  if (cordoned === undefined) return [];
  if (!cordoned) return [`${cluster} is uncordoned: placements may pick it`];
  return [
    `${cluster} is cordoned; placements that were bound to it: ${placements.length === 0 ? "none" : placements.length}`,
    ...placements.map(describe),
  ];
}
