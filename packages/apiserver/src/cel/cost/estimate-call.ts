import type { Expr } from "../syntax/ast.ts";
import { type CelType, isSameType } from "../type.ts";
import { PATTERN, TRAVERSAL } from "./actual.ts";
import { add, exactly, multiply, ONE, type Range, scale, UNKNOWN } from "./range.ts";

/** The cost of calls by the maximum size of their arguments. Sources: as of `estimate.ts`. */

export interface Operand {
  readonly expr: Expr;
  readonly type: CelType;
  readonly size: Range | undefined;
  /** Of a list. */
  readonly elementType: CelType | undefined;
  readonly elementSize: Range | undefined;
}

export interface CallEstimate {
  readonly cost: Range;
  readonly size?: Range;
}

interface Made {
  readonly id: string;
  readonly target: Operand | undefined;
  readonly args: readonly Operand[];
}

type Estimate = (made: Made) => CallEstimate;

const size = (operand: Operand | undefined): Range => operand?.size ?? UNKNOWN;
/** The target of a member, the first argument of another. */
const subject = ({ target, args }: Made): Operand | undefined => target ?? args[0];
const constant =
  (cost: number): Estimate =>
  () => ({ cost: exactly(cost) });
const LIST_CREATE = exactly(10);
const ADDRESS: Range = { min: 4, max: 16 };

const traverse: Estimate = (made) => ({ cost: scale(size(subject(made)), TRAVERSAL) });
const traverseSame: Estimate = (made) => ({ ...traverse(made), size: size(subject(made)) });
const traverseTwice: Estimate = (made) => ({ cost: scale(size(subject(made)), 2 * TRAVERSAL) });
const traverseArg: Estimate = ({ args: [first] }) => ({ cost: scale(size(first), TRAVERSAL) });

function matchCost(text: Operand | undefined, pattern: Operand | undefined): Range {
  return multiply(scale(add(size(text), ONE), TRAVERSAL), scale(size(pattern), PATTERN));
}

const wholeList: Estimate = ({ target }) => {
  const element = target?.elementType;
  if (element === undefined) return { cost: scale(size(target), TRAVERSAL) };
  const isText = element.kind === "string" || element.kind === "bytes";
  const each = isText ? add(ONE, scale(target?.elementSize ?? UNKNOWN, TRAVERSAL)) : ONE;
  return { cost: multiply(size(target), each) };
};

const selector: Estimate = ({ args: [text] }) => ({
  cost: add(LIST_CREATE, scale(size(text), TRAVERSAL), scale(scale(size(text), 0.5), 50)),
});

const replace: Estimate = ({ target, args: [part, by] }) => {
  const [whole, from, to] = [size(target), size(part), size(by)];
  const grown = (length: number, least: number, most: number): number => {
    if (least === 0) return length + (length + 1) * most;
    return most <= least ? length : Math.ceil(length / least) * most;
  };
  const cost = scale(whole, 2 * TRAVERSAL);
  return { cost, size: { min: grown(whole.min, from.max, to.min), max: grown(whole.max, from.min, to.max) } };
};

const split: Estimate = ({ target, args: [, limit] }) => {
  const value = limit?.expr.kind === "literal" ? limit.expr.value : undefined;
  const most = typeof value === "bigint" && value >= 0n ? Number(value) : size(target).max;
  return { cost: scale(size(target), 2 * TRAVERSAL), size: { min: 0, max: most } };
};

const join: Estimate = ({ target, args: [separator] }) => {
  const count = size(target);
  const gaps = { min: Math.max(0, count.min - 1), max: Math.max(0, count.max - 1) };
  const items = multiply(count, target?.elementSize ?? UNKNOWN);
  const whole = separator === undefined ? items : add(items, multiply(size(separator), gaps));
  return { cost: scale(whole, TRAVERSAL), size: whole };
};

const find: Estimate = ({ target, args: [pattern] }) => ({
  cost: matchCost(target, pattern),
  size: { min: 0, max: size(target).max },
});

const containsIp: Estimate = ({ id, args: [other] }) => {
  const both = scale(add(ADDRESS, ADDRESS), TRAVERSAL);
  return { cost: id.endsWith("_string") ? add(both, scale(size(other), TRAVERSAL)) : both };
};

const containsCidr: Estimate = ({ id, args: [other] }) => {
  const both = add(scale(add(ADDRESS, ADDRESS), TRAVERSAL), scale(ADDRESS, TRAVERSAL), ONE);
  return { cost: id.endsWith("_string") ? add(both, scale(size(other), TRAVERSAL)) : both };
};

/** The longest pattern of a named format. Unit: characters. */
const FORMAT_PATTERN = 128;
const validate: Estimate = ({ args: [text] }) => ({
  cost: scale(scale(size(text), TRAVERSAL), FORMAT_PATTERN * PATTERN),
});

function madeList(of: (made: Made) => { readonly count: Range; readonly factor: number }): Estimate {
  return (made) => {
    const { count, factor } = of(made);
    return { cost: add(scale(count, factor), ONE, LIST_CREATE), size: count };
  };
}

function intOf(operand: Operand | undefined, otherwise: number): number {
  const value = operand?.expr.kind === "literal" ? operand.expr.value : undefined;
  return typeof value === "bigint" ? Math.max(0, Number(value)) : otherwise;
}

const square = (of: Range): Range => multiply(of, of);
const isText = (made: Made): boolean => made.id.includes("string") || made.id.includes("bytes");

const slice = madeList(({ target, args: [start, end] }) => ({
  count: exactly(Math.max(0, intOf(end, size(target).max) - intOf(start, 0))),
  factor: 1,
}));

const compareAll =
  (factor: number): Estimate =>
  ({ args: [a, b] }) => ({ cost: add(scale(multiply(size(a), size(b)), factor), ONE) });

const BY_NAME: ReadonlyMap<string, Estimate> = new Map<string, Estimate>([
  ["check", constant(350_000)],
  ["fieldSelector", selector],
  ["labelSelector", selector],
  ...["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"].map((it) => [it, wholeList] as const),
  ["url", traverseSame],
  ...["lowerAscii", "upperAscii", "substring", "trim"].map((it) => [it, traverseSame] as const),
  ["replace", replace],
  ["split", split],
  ["join", join],
  ["find", find],
  ["findAll", find],
  ...["cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"].map(
    (it) => [it, traverseArg] as const,
  ),
  ["ip", (made) => (made.id === "cidr_ip" ? { cost: ONE } : traverseArg(made))],
  ["ip.isCanonical", traverseTwice],
  ["containsIP", containsIp],
  ["containsCIDR", containsCidr],
  ["validate", validate],
  ["slice", slice],
  ["lists.range", madeList(({ args: [end] }) => ({ count: exactly(intOf(end, Infinity)), factor: 1 }))],
  ["reverse", madeList(({ target }) => ({ count: size(target), factor: 1 }))],
  [
    "flatten",
    madeList(({ target, args: [depth] }) => ({
      count: size(target),
      factor: depth === undefined ? 1 : intOf(depth, Infinity),
    })),
  ],
  ["distinct", madeList(({ target }) => ({ count: square(size(target)), factor: 2 }))],
  [
    "sort",
    madeList((made) => ({ count: square(size(made.target)), factor: isText(made) ? 2 + TRAVERSAL : 2 })),
  ],
  [
    "@sortByAssociatedKeys",
    madeList((made) => ({ count: square(size(made.args[0])), factor: isText(made) ? 2 + TRAVERSAL : 2 })),
  ],
  ["sets.contains", compareAll(1)],
  ["sets.intersects", compareAll(1)],
  ["sets.equivalent", compareAll(2)],
]);

const sum = ({ args: [a, b] }: Made): Range => add(size(a), size(b));

const comparison: Estimate = ({ id, args: [a, b] }) => {
  const isKnown = a !== undefined && b !== undefined && isSameType(a.type, b.type);
  if (id === "equals" && isKnown && (a.type.kind === "opaque" || a.type.name.startsWith("kubernetes."))) {
    return { cost: ONE };
  }
  const max = Math.min(size(a).max, size(b).max);
  return { cost: scale({ min: max > 0 ? 1 : 0, max }, TRAVERSAL) };
};

const BY_OVERLOAD: ReadonlyMap<string, Estimate> = new Map<string, Estimate>([
  ["string_format", traverse],
  [
    "string_to_bytes",
    ({ args: [text] }) => ({
      cost: scale(size(text), TRAVERSAL),
      size: { min: size(text).min, max: size(text).max * 4 },
    }),
  ],
  [
    "bytes_to_string",
    ({ args: [bytes] }) => ({
      cost: scale(size(bytes), TRAVERSAL),
      size: { min: Math.floor(size(bytes).min / 4), max: size(bytes).max },
    }),
  ],
  [
    "strings_quote",
    ({ args: [text] }) => ({
      cost: scale(size(text), TRAVERSAL),
      size: { min: size(text).min + 2, max: size(text).max * 2 + 2 },
    }),
  ],
  ["starts_with_string", traverseArg],
  ["ends_with_string", traverseArg],
  ["in_list", ({ args: [, list] }) => ({ cost: size(list) })],
  ["matches_string", ({ target, args: [pattern] }) => ({ cost: matchCost(target, pattern) })],
  [
    "contains_string",
    ({ target, args: [part] }) => ({
      cost: multiply(scale(size(target), TRAVERSAL), scale(size(part), TRAVERSAL)),
    }),
  ],
  ["add_string", (made) => ({ cost: scale(sum(made), TRAVERSAL), size: sum(made) })],
  ["add_bytes", (made) => ({ cost: scale(sum(made), TRAVERSAL), size: sum(made) })],
  ["add_list", (made) => ({ cost: ONE, size: sum(made) })],
  ["equals", comparison],
  ["not_equals", comparison],
  ...["less", "less_equals", "greater", "greater_equals"].flatMap((it) => [
    [`${it}_string`, comparison] as const,
    [`${it}_bytes`, comparison] as const,
  ]),
]);

export function estimateCall(made: Made & { readonly name: string }): CallEstimate {
  const estimate = BY_NAME.get(made.name) ?? BY_OVERLOAD.get(made.id);
  return estimate?.(made) ?? { cost: ONE };
}
