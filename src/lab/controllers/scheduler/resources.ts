import type { Container, Pod } from "#api/core/v1/types.ts";

/** What pods ask of a node and what it has. Source: KEP-753 (sidecars), pkg/scheduler/framework/plugins/noderesources. */

export type Amounts = ReadonlyMap<string, number>;

const SUFFIXES: ReadonlyMap<string, number> = new Map([
  ["", 1],
  ...["n", "u", "m"].map((suffix, at) => [suffix, 1000 ** (at - 3)] as const),
  ...["k", "M", "G", "T", "P", "E"].map((suffix, at) => [suffix, 1000 ** (at + 1)] as const),
  ...["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].map((suffix, at) => [suffix, 1024 ** (at + 1)] as const),
]);

/** A quantity as a number; 0 where it cannot be read: an API server lets none such through. */
export function parseAmount(text: string): number {
  const [, digits = "", exponent = "", suffix = ""] =
    /^([+\-]?[\d.]+)(?:[eE]([+\-]?\d+)|([a-zA-Z]{0,2}))$/v.exec(text) ?? [];
  const value = Number(digits) * 10 ** Number(exponent) * (SUFFIXES.get(suffix) ?? 0);
  return Number.isFinite(value) ? value : 0;
}

/**
 * What the pod needs at its worst moment: all that runs in the end, or an init container beside the sidecars that
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

export function amountsOf(quantities: Readonly<Record<string, string>> = {}): Amounts {
  return new Map(Object.entries(quantities).map(([name, text]) => [name, parseAmount(text)]));
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
