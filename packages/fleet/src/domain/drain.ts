import { byText } from "@fairlead/base/text.ts";
import type {
  DrainedCluster,
  DrainMode,
  MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { DRAIN_ANNOTATION } from "#api/fairlead.dev/names.ts";

/** The drain mode of a member, from the annotation of its MemberCluster. Any other text means that it is not drained. */
export function drainModeOf(member: Pick<MemberCluster, "metadata">): DrainMode | undefined {
  switch (member.metadata.annotations?.[DRAIN_ANNOTATION]) {
    case "true":
      return "Soft";
    case "hard":
      return "Hard";
    default:
      return undefined;
  }
}

/** Members that are drained, sorted. */
export function drainedMembers(members: Iterable<MemberCluster>): DrainedCluster[] {
  return [...members]
    .flatMap((it) => {
      const mode = drainModeOf(it);
      return mode === undefined ? [] : [{ cluster: it.metadata.name, mode }];
    })
    .toSorted((a, b) => byText(a.cluster, b.cluster));
}

/** Whether a member is drained in another way than before, or no longer. */
export function isDrainChanged(before: MemberCluster | undefined, after: MemberCluster | undefined): boolean {
  const [was, is] = [before, after].map((it) => (it === undefined ? undefined : drainModeOf(it)));
  return was !== is;
}
