import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { countQuantity } from "@fairlead/kube/api/meta/quantity.ts";

/** What pods ask of a node and what it has. Source: KEP-753 (sidecars), pkg/scheduler/framework/plugins/noderesources. */

/** By resource. Unit: thousandths, of which sums are exact. */
export type Amounts = ReadonlyMap<string, number>;

/**
 * The largest amount that the pod needs at any time: all main containers, or an init container together with the sidecars that
 * started before it.
 */
export function requestsOf(pod: Pod): Amounts {
  const { containers = [], initContainers = [], overhead = {} } = pod.spec ?? {};
  let sidecars: Amounts = new Map();
  let worstInit: Amounts = new Map();
  for (const container of initContainers) {
    const own = amountsOf(container.resources?.requests);
    if (isSidecar(container)) sidecars = sum(sidecars, own);
    worstInit = max(worstInit, isSidecar(container) ? sidecars : sum(sidecars, own));
  }
  const running = containers.reduce<Amounts>(
    (total, it) => sum(total, amountsOf(it.resources?.requests)),
    sidecars,
  );
  return sum(max(running, worstInit), amountsOf(overhead));
}

function isSidecar(container: Container): boolean {
  return container.restartPolicy === "Always";
}

/** What cannot be read is nothing: an API server lets none such through. */
export function amountsOf(quantities: Readonly<Record<string, string>> = {}): Amounts {
  return new Map(Object.entries(quantities).map(([name, text]) => [name, countQuantity(text, 1000) ?? 0]));
}

export function sum(a: Amounts, b: Amounts): Amounts {
  return combine(a, b, (x, y) => x + y);
}

function max(a: Amounts, b: Amounts): Amounts {
  return combine(a, b, Math.max);
}

function combine(a: Amounts, b: Amounts, how: (x: number, y: number) => number): Amounts {
  const result = new Map(a);
  for (const [name, amount] of b) result.set(name, how(result.get(name) ?? 0, amount));
  return result;
}
