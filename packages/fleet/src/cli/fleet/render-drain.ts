import { renderData, type ResultOutput } from "../output.ts";
import type { DrainResult } from "./drain.ts";

export function renderDrain(result: DrainResult, output: ResultOutput): string {
  return output === "text" ? sentences(result).join("\n") : renderData(result, output);
}

function sentences({ cluster, mode, carriedOutBy, servedOnlyHere }: DrainResult): string[] {
  const by = carriedOutBy.length === 0 ? "" : ` (carried out by ${carriedOutBy.join(", ")})`;
  if (mode === "None") return [`${cluster} gets new requests again${by}`];
  const fate = mode === "Hard" ? "no requests are answered any more" : "they go on here";
  return [
    `${cluster} is drained${by}`,
    ...(servedOnlyHere.length === 0
      ? []
      : [`No other cluster can serve these, ${fate}:`, ...servedOnlyHere.map((it) => `  ${it}`)]),
  ];
}
