import { byText } from "@fairlead/base/text.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { GATEWAY_LABEL } from "#api/fairlead.dev/names.ts";
import { type Gateway, MAX_ORDINAL } from "#api/fairlead.dev/v1alpha1/mesh.ts";

/** Which nodes of a cluster are gateways. Pure. */

/** Without labelled nodes. */
const DEFAULT_COUNT = 2;
/** Another node becomes a gateway when one has been not ready for so long: a restart of it takes less. Unit: milliseconds. */
const PATIENCE_MS = 300_000;

interface GatewaysView {
  readonly nodes: readonly Node[];
  /** Those of this cluster. */
  readonly gateways: readonly Gateway[];
  readonly nowMs: number;
}

interface Chosen {
  readonly ordinal: number;
  readonly node: string;
}

interface GatewaysPlan {
  readonly gateways: readonly Chosen[];
  readonly againInMs: number | undefined;
}

/**
 * The nodes with the label, or the first two that are ready. A gateway keeps its ordinal while its node is there, and one
 * that is to be another goes when that one has taken over.
 */
export function planOwnGateways({ nodes, gateways, nowMs }: GatewaysView): GatewaysPlan {
  const present = new Map(nodes.filter((it) => !isDeleting(it)).map((it) => [it.metadata.name, it]));
  const living = gateways
    .filter((it) => present.has(it.spec.node) && !isDeleting(it))
    .toSorted((a, b) => a.spec.ordinal - b.spec.ordinal);
  const holders = new Set(living.map((it) => it.spec.node));
  const lostAt = new Map([...present].map(([name, it]) => [name, lostSinceMs(it)]));
  const isUsable = (name: string): boolean => nowMs - (lostAt.get(name) ?? nowMs) < PATIENCE_MS;
  const byName = [...present.keys()].toSorted(byText);
  const labelled = byName.filter((it) => present.get(it)?.metadata.labels?.[GATEWAY_LABEL] === "true");
  const isReady = (it: string): boolean => lostAt.get(it) === undefined;
  const eligible = labelled.length > 0 ? labelled : byName.filter((it) => isReady(it) || holders.has(it));
  const count = labelled.length > 0 ? MAX_ORDINAL + 1 : DEFAULT_COUNT;
  const rank = (name: string): number =>
    isUsable(name) ? Number(!holders.has(name)) + 2 * Number(!isReady(name) && !holders.has(name)) : 4;
  const wanted = new Set(eligible.toSorted((a, b) => rank(a) - rank(b)).slice(0, count));
  const kept = living.filter((it) => wanted.has(it.spec.node));
  const leaving = living.filter((it) => !wanted.has(it.spec.node));
  const missing = [...wanted].filter((it) => !holders.has(it));
  const isTakenOver = missing.length === 0 && kept.length > 0 && kept.every(isWorking);
  const stay = isTakenOver ? kept : makeRoom([...kept, ...leaving], leaving, missing.length);
  const result: Chosen[] = stay.map(({ spec: { ordinal, node } }) => ({ ordinal, node }));
  for (const node of missing) {
    const taken = new Set(result.map((it) => it.ordinal));
    for (let ordinal = 0; ordinal <= MAX_ORDINAL; ordinal += 1)
      if (!taken.has(ordinal)) {
        result.push({ ordinal, node });
        break;
      }
  }
  const waits = [...holders]
    .map((it) => lostAt.get(it))
    .flatMap((it) => (it === undefined || nowMs - it >= PATIENCE_MS ? [] : [it + PATIENCE_MS - nowMs]));
  return {
    gateways: result.toSorted((a, b) => a.ordinal - b.ordinal),
    againInMs: waits.length === 0 ? undefined : Math.max(1, Math.min(...waits)),
  };
}

/** Those that leave go at once only where there is no ordinal left for those that come. */
function makeRoom(all: readonly Gateway[], leaving: readonly Gateway[], coming: number): readonly Gateway[] {
  const excess = Math.max(0, all.length + coming - (MAX_ORDINAL + 1));
  const going = new Set(leaving.slice(0, excess));
  return all.filter((it) => !going.has(it));
}

/** Whether other clusters can use it. */
function isWorking({ spec, status }: Gateway): boolean {
  return (spec.keys?.length ?? 0) > 0 && isConditionTrue(status?.conditions, "Accepted");
}

/** Since when a node is not ready; undefined while it is. */
function lostSinceMs({ status }: Node): number | undefined {
  const ready = status?.conditions?.find((it) => it.type === "Ready");
  if (ready?.status === "True") return undefined;
  const since = Date.parse(ready?.lastTransitionTime ?? "");
  return Number.isNaN(since) ? 0 : since;
}
