import {
  containsPrefix,
  overlaps,
  parsePrefix,
  type Prefix,
  prefixOf,
  subnetAt,
  tryParsePrefix,
} from "@fairlead/base/netaddr/prefix.ts";
import { bitsOf, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Draft } from "./draft.ts";
import { TOO_MANY_EXCEPTIONS } from "./exceptions.ts";
import { type Part, type Refuse, shown, textOf } from "./part.ts";

/**
 * A CIDR, or where the kind has it a bare address. Bits behind the length are cleared, as API servers accept them.
 */
export function prefixOfPart(part: Part, refuse: Refuse, canBeAddress = false): Prefix | undefined {
  const text = textOf(part, refuse);
  if (text === undefined) return undefined;
  const address = canBeAddress ? tryParseAddress(text) : undefined;
  if (address !== undefined) return prefixOf(address, bitsOf(typeof address === "number" ? "IPv4" : "IPv6"));
  try {
    return parsePrefix(text, { hostBits: "clear" });
  } catch (error) {
    return refuse(part.path, `${messageOf(error)}.`);
  }
}

/** How many exceptions one CIDR has at most: each costs up to 128 prefixes. */
const MAX_EXCEPTIONS = 250;

/**
 * What is left of `cidr` without the exceptions. An exception that cannot be read, or is outside, refuses the whole: to leave it out
 * could allow what was meant to be excepted.
 */
export function withoutExceptions(
  cidr: Prefix,
  exceptions: readonly Part[],
  draft: Pick<Draft, "exceptionsLeft">,
  refuse: Refuse,
): readonly Prefix[] | undefined {
  if (exceptions.length > MAX_EXCEPTIONS) {
    const path = exceptions[MAX_EXCEPTIONS]?.path ?? "";
    return refuse(
      path,
      `${exceptions.length} exceptions are more than the ${MAX_EXCEPTIONS} that one CIDR can have.`,
    );
  }
  draft.exceptionsLeft -= exceptions.length;
  if (draft.exceptionsLeft < 0) return refuse(exceptions[0]?.path ?? "", TOO_MANY_EXCEPTIONS);
  const read = exceptions.map((it) => exceptionOf(it, cidr, refuse));
  const found = read.filter((it) => it !== undefined);
  return found.length < read.length ? undefined : [...remaining(cidr, found)];
}

function exceptionOf(part: Part, cidr: Prefix, refuse: Refuse): Prefix | undefined {
  const text = textOf(part, refuse);
  if (text === undefined) return undefined;
  const except = tryParsePrefix(text, { hostBits: "clear" });
  if (except === undefined) return refuse(part.path, `${shown(text)} is not a prefix such as 10.1.0.0/16.`);
  if (containsPrefix(cidr, except)) return except;
  return refuse(part.path, `${shown(text)} is not inside the CIDR that it is an exception of.`);
}

/** Halves the prefix where exceptions are in it, so that each of them costs as much as it is longer than the prefix. */
export function* remaining(prefix: Prefix, exceptions: readonly Prefix[]): Generator<Prefix, undefined> {
  const inside = exceptions.filter((it) => overlaps(prefix, it));
  if (inside.some((it) => containsPrefix(it, prefix))) return undefined;
  if (inside.length === 0) yield prefix;
  else for (const half of [0, 1]) yield* remaining(subnetAt(prefix, prefix.length + 1, half), inside);
  return undefined;
}
