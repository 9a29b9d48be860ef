import { createHash } from "node:crypto";
import { VERSION } from "@fairlead/base/version.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Access } from "./access.ts";
import {
  MEMBER_ACCESS,
  MEMBER_NODES_ACCESS,
  MEMBER_TAINTS_ACCESS,
  MEMBER_WORK_ACCESS,
  type ProgramAccess,
} from "./programs.ts";

/**
 * Permissions that `fairlead join` granted to a member's agent, as its Deployment passes them on to the agent. An agent of another
 * release, which a run of type Components rolls out, runs with these: nothing but `fairlead join` may grant more.
 */

/** Environment variable of the agent. */
export const PERMISSIONS_VARIABLE = "FAIRLEAD_PERMISSIONS";

/** Tasks of an agent that need permissions in addition. */
export interface AgentTasks {
  readonly installsNodes: boolean;
  readonly setsTaints: boolean;
  readonly places: boolean;
}

/** Identifies the permissions that this release of the agent needs for its tasks: one word for each set of them. */
export function permissionsDigest({ installsNodes, setsTaints, places }: AgentTasks): string {
  const programs: readonly ProgramAccess[] = [
    MEMBER_ACCESS,
    ...(installsNodes ? [MEMBER_NODES_ACCESS] : []),
    ...(setsTaints ? [MEMBER_TAINTS_ACCESS] : []),
    ...(places ? [MEMBER_WORK_ACCESS] : []),
  ];
  return programs.map(digestOf).join(" ");
}

function digestOf({ cluster, system }: ProgramAccess): string {
  const text = JSON.stringify([cluster.map(shape), system.map(shape)]);
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

function shape({ of: { group, plural }, subresource, verbs, names }: Access): unknown {
  return [group, plural, subresource, verbs, names];
}

/**
 * Checks that an agent has the permissions of its release. Nothing is known of those that a chart or a user granted.
 *
 * @param granted - The value of `PERMISSIONS_VARIABLE`.
 *
 * @throws {FleetError} PRECONDITION_FAILED if some that the tasks need are not among them.
 */
export function checkPermissionsGranted(granted: string | undefined, tasks: AgentTasks): void {
  if (granted === undefined || granted === "") return;
  const words = new Set(granted.split(" "));
  if (
    permissionsDigest(tasks)
      .split(" ")
      .every((it) => words.has(it))
  )
    return;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `fairlead member ${VERSION} needs other permissions than "fairlead join" granted in this cluster: run "fairlead join" of release ${VERSION} again`,
  );
}
