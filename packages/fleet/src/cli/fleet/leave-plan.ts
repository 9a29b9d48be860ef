import type { PlacedOnLeave } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { countKinds } from "#placement/work/placed.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { joinLines } from "@fairlead/base/print.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { renderData, type ResultOutput } from "../output.ts";
import { checkReachable, findMember } from "./clusters.ts";
import { servedOnlyBy } from "./drain.ts";
import type { JoinDeps } from "./join-options.ts";
import { checkIsMember, type LeaveOptions } from "./leave.ts";
import { placedOn } from "./leave-placed.ts";
import { readFleet, summarizeFleet } from "./status.ts";

/** The consequences of a member's leave. */
export interface LeavePlan {
  readonly cluster: string;
  /** Services, as "namespace/name". */
  readonly exports: readonly string[];
  /** Exported services that no other cluster can serve now. */
  readonly servedOnlyHere: readonly string[];
  /** Kinds with their numbers; undefined: its cluster was not asked. */
  readonly placed: string | undefined;
  readonly placedOnLeave: PlacedOnLeave;
  readonly deletesExports: boolean;
}

/** Changes nothing. @throws {FleetError} as `leaveFleet`, for a member or a cluster that it would refuse. */
export async function planLeave(
  options: LeaveOptions,
  deps: JoinDeps,
  signal: AbortSignal,
): Promise<LeavePlan> {
  const { name, deleteExports = false } = options;
  if (options.hub === undefined)
    throw new FleetError("OPTION_INVALID", "--dry-run asks the hub, and cannot be used with --hub-gone");
  await using hub = connect(options.hub, deps);
  await using member = options.member === undefined ? undefined : connect(options.member, deps);
  await checkReachable(hub, { who: "the hub", config: options.hub }, deps, signal);
  if (member !== undefined && options.member !== undefined)
    await checkReachable(member, { who: `cluster ${name}`, config: options.member }, deps, signal);
  const present = await findMember(hub, name, signal);
  if (member !== undefined) await checkIsMember(member, present, signal);
  const fleet = summarizeFleet(await readFleet(hub, signal));
  const exported = fleet.services.filter((it) => it.exports.some((at) => at.cluster === name));
  const placed = await placedOn(member, name, signal);
  return {
    cluster: name,
    exports: exported.map((it) => `${it.namespace}/${it.name}`),
    servedOnlyHere: servedOnlyBy(fleet, name),
    placed: member === undefined ? undefined : countKinds(placed.map((it) => it.kind ?? "")),
    placedOnLeave: options.placed ?? present.spec.deleteOptions?.placed ?? "Keep",
    deletesExports: deleteExports,
  };
}

export function renderLeavePlan(plan: LeavePlan, output: ResultOutput): string {
  if (output !== "text") return renderData(plan, output);
  const { cluster, exports, servedOnlyHere, placed, placedOnLeave, deletesExports } = plan;
  const theirs = deletesExports ? "its ServiceExports would be deleted" : "its ServiceExports would stay";
  return joinLines([
    `${cluster} would leave the fleet. Nothing was changed.`,
    `Services that it would not export any more: ${exports.length}; ${theirs}.`,
    ...(servedOnlyHere.length === 0
      ? []
      : ["No other cluster can serve these services:", ...servedOnlyHere.map((it) => `  ${it}`)]),
    ...(placed === undefined ? [] : [`Placed there (${placedOnLeave}): ${placed}`]),
  ]);
}
