import { stringify } from "yaml";
import { FleetError } from "#base/errors.ts";
import type { DrainResult } from "./drain.ts";

const OUTPUTS = ["text", "json", "yaml"] as const;
export type DrainOutput = (typeof OUTPUTS)[number];

/** @throws {FleetError} `OPTION_INVALID` */
export function parseDrainOutput(text: string): DrainOutput {
  const output = OUTPUTS.find((it) => it === text);
  if (output === undefined)
    throw new FleetError("OPTION_INVALID", `--output must be one of ${OUTPUTS.join(", ")}, got ${text}`);
  return output;
}

export function renderDrain(result: DrainResult, output: DrainOutput): string {
  switch (output) {
    case "json":
      return JSON.stringify(result, undefined, 2);
    case "yaml":
      return stringify(result).trimEnd();
    case "text":
      return sentences(result).join("\n");
    default:
      return output satisfies never;
  }
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
