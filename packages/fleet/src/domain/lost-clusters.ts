import { someOf } from "./node-agents.ts";

/**
 * Clusters whose Lease is not renewed, as other members see them: endpoints that answer tell an agent that has stopped from a cluster that
 * is gone. Pure.
 */

export interface LostCluster {
  readonly cluster: string;
  /** Whether an endpoint of it answers. */
  readonly answers: boolean;
}

/** The annotation of a Lease, as "east=answers,west=silent"; undefined: there is nothing to say. */
export function formatLost(lost: readonly LostCluster[]): string | undefined {
  if (lost.length === 0) return undefined;
  return lost.map((it) => `${it.cluster}=${it.answers ? ANSWERS : SILENT}`).join(",");
}

/** Parts that say something else are left out: a member may write anything. */
export function parseLost(text = ""): readonly LostCluster[] {
  return text.split(",").flatMap((it) => {
    const [cluster = "", word] = it.split("=", 2);
    return word === ANSWERS || word === SILENT ? [{ cluster, answers: word === ANSWERS }] : [];
  });
}

const ANSWERS = "answers";
const SILENT = "silent";

/** Members that see a lost cluster, sorted. */
export interface Witnesses {
  readonly answered: readonly string[];
  readonly unanswered: readonly string[];
}

/** What is wrong with a member whose Lease was not renewed, and what to do. */
export function describeLost(leaseSeconds: number, { answered, unanswered }: Witnesses): string {
  const lost = `the lease was not renewed for ${leaseSeconds} s`;
  const cut = unanswered.length === 0 ? "" : `; ${someOf(unanswered)} cannot reach these endpoints`;
  if (answered.length > 0)
    return `${lost}, but endpoints of the cluster answer ${someOf(answered)}: "fairlead member" does not run there, or does not reach the hub; check its pods and their log${cut}`;
  if (unanswered.length > 0)
    return `${lost}, and no endpoint of the cluster answers ${someOf(unanswered)}: the cluster is down, or its links are cut; check its nodes, and the network to them`;
  return `${lost}: importers drop endpoints that do not answer; check that "fairlead member" runs there and reaches the hub`;
}
