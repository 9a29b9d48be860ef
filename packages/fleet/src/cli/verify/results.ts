import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { Participant } from "./manifests.ts";
import type { Sight } from "./plan.ts";
import { CHECKS, DONE, type Finding, type Result } from "./probes.ts";

/** The results of one cluster, from what its probe printed. Pure. */

interface EndedPod {
  readonly status?: Pod["status"];
}

const STATUSES = ["passed", "failed", "skipped"];

/**
 * @param log - What the pod of the probe printed.
 *
 * @throws {Error} if the program did not come to its end.
 */
export function parseFindings(log: string, { status }: EndedPod = {}): readonly Finding[] {
  const lines = log.split("\n").filter((it) => it !== "");
  if (lines.at(-1) !== DONE)
    throw new Error(`it ended early${endOf(status)}; last line: ${lines.at(-1) ?? "none"}`);
  return lines.slice(0, -1).flatMap((line) => parseFinding(line) ?? []);
}

/** The reason that the kubelet gives: a pod that was killed may have printed nothing. */
function endOf(status: Pod["status"]): string {
  const ended = status?.containerStatuses?.flatMap(({ state }) => state?.terminated ?? []).at(0);
  const told = [
    [status?.reason, status?.message],
    [ended?.reason, ended === undefined ? undefined : `exit code ${ended.exitCode}`],
  ].flatMap((it) => it.filter((word) => word !== undefined && word !== ""));
  return told.length === 0 ? "" : ` (${told.join(", ")})`;
}

/** Lines that are not findings, such as warnings of the runtime, are left out. */
function parseFinding(line: string): Finding | undefined {
  if (!line.startsWith("{")) return undefined;
  const found: unknown = JSON.parse(line);
  if (!isObject(found)) return undefined;
  const { check, status, family, to, detail } = found;
  const isFinding =
    CHECKS.some((it) => it === check) &&
    STATUSES.some((it) => it === status) &&
    (family === "IPv4" || family === "IPv6") &&
    typeof to === "string" &&
    typeof detail === "string";
  return isFinding ? (found as unknown as Finding) : undefined;
}

/** For the clusters of which something is missing, one result, because nothing can be probed. */
export function missingResults(from: string, { missing }: Sight): readonly Result[] {
  return [...missing].map(([to, detail]) => failure(from, to, detail));
}

/** If the probe of a cluster cannot be run at all. */
export function failedProbe(from: string, others: readonly Participant[], why: string): readonly Result[] {
  return others.map((it) => failure(from, it.name, why));
}

function failure(from: string, to: string, detail: string): Result {
  return { from, to, check: "import", family: "IPv4", status: "failed", ms: 0, detail };
}
