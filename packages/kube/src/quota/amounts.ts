import { byText } from "@fairlead/base/text.ts";
import { type Fields, stringMapAt } from "@fairlead/base/fields.ts";
import { parseQuantity } from "#api/meta/quantity.ts";
import { renderQuantity } from "#api/meta/canonical-quantity.ts";

/** Lists of resources, to be reckoned with. Source: k8s.io/apiserver, pkg/quota/v1/resources.go. */

export interface Amount {
  /** Unit: 10^-9. */
  readonly nanos: bigint;
  /** The format of the amount: "i", "e0" or empty. */
  readonly suffix: string;
}

/** By the resource's name. */
export type Amounts = ReadonlyMap<string, Amount>;

const ONE = 10n ** 9n;

export function count(of: number): Amount {
  return { nanos: BigInt(of) * ONE, suffix: "" };
}

export function amountsAt(of: Fields | undefined, key: string): Amounts {
  return new Map(Object.entries(stringMapAt(of, key)).map(([name, text]) => [name, amountOf(text)]));
}

function amountOf(text: string): Amount {
  const [suffix = ""] = /(?:i|[eE][+-]?\d+)$/.exec(text) ?? [];
  return { nanos: parseQuantity(text) ?? 0n, suffix };
}

/** In whole units, what is begun counting as whole. */
export function roundUp({ nanos, suffix }: Amount): Amount {
  return { nanos: ((nanos + ONE - 1n) / ONE) * ONE, suffix };
}

export function sum(a: Amounts, b: Amounts): Amounts {
  return combine(a, b, (x, y) => ({
    nanos: x.nanos + y.nanos,
    suffix: x.nanos === 0n ? y.suffix : x.suffix,
  }));
}

export function largest(a: Amounts, b: Amounts): Amounts {
  return combine(a, b, (x, y) => (y.nanos > x.nanos ? y : x));
}

/** The difference of `a` and `b`, at least zero. */
export function excess(a: Amounts, b: Amounts): Amounts {
  const more = [...a].map(([name, { nanos, suffix }]) => {
    const left = nanos - (b.get(name)?.nanos ?? 0n);
    return [name, { nanos: left > 0n ? left : 0n, suffix }] as const;
  });
  return new Map(more);
}

function combine(a: Amounts, b: Amounts, how: (x: Amount, y: Amount) => Amount): Amounts {
  const result = new Map(a);
  for (const [name, amount] of b) {
    const present = result.get(name);
    result.set(name, present === undefined ? amount : how(present, amount));
  }
  return result;
}

export function pick(amounts: Amounts, isWanted: (name: string, amount: Amount) => boolean): Amounts {
  return new Map([...amounts].filter(([name, amount]) => isWanted(name, amount)));
}

export function sameAmounts(a: Amounts, b: Amounts): boolean {
  return a.size === b.size && [...a].every(([name, { nanos }]) => b.get(name)?.nanos === nanos);
}

/** As objects hold them, by name. */
export function textsOf(amounts: Amounts): Readonly<Record<string, string>> {
  const sorted = [...amounts].toSorted(([a], [b]) => byText(a, b));
  return Object.fromEntries(sorted.map(([name, { nanos, suffix }]) => [name, renderQuantity(nanos, suffix)]));
}
