import { isObject } from "@fairlead/base/json.ts";
import type { Side } from "../steps.ts";
import type { Finding } from "./finding.ts";

/**
 * Kubernetes 1.x: the oldest and the newest that are supported. Slices need discovery.k8s.io/v1 (1.21), kinds their CEL
 * rules (1.25).
 */
const OLDEST_MINOR = 25;
const NEWEST_MINOR = 36;

/** Whether a cluster is of a version that this program knows. */
export async function checkVersion({ who, client }: Side, signal: AbortSignal): Promise<Finding> {
  const answer = await client.request("GET", "/version", undefined, { signal });
  const text = isObject(answer) ? String(answer["gitVersion"]) : "";
  return judgeVersion(who, text, isObject(answer) ? String(answer["minor"]) : "");
}

export function judgeVersion(who: string, version: string, minorText: string): Finding {
  const check = "version" as const;
  // Some providers write "30+".
  const minor = Number.parseInt(minorText, 10);
  if (Number.isNaN(minor))
    return { check, status: "unknown", message: `cannot determine the version of ${who} (${version})` };
  if (minor < OLDEST_MINOR)
    return {
      check,
      status: "failed",
      message: `${who} runs Kubernetes ${version}; upgrade it to 1.${OLDEST_MINOR} or later`,
    };
  if (minor > NEWEST_MINOR)
    return {
      check,
      status: "warning",
      message: `${who} runs Kubernetes ${version}; this program was tested up to 1.${NEWEST_MINOR}`,
    };
  return { check, status: "ok", message: `${who} runs Kubernetes ${version}` };
}
