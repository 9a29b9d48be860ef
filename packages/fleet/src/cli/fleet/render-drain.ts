import { renderData, type ResultOutput } from "../output.ts";
import type { DrainResult } from "./drain.ts";

export function renderDrain(result: DrainResult, output: ResultOutput): string {
  return output === "text" ? sentences(result).join("\n") : renderData(result, output);
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
