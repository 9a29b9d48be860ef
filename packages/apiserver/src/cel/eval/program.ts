import type { Checked } from "../check/checker.ts";
import { actualCost } from "../cost/actual.ts";
import { compilePattern } from "#schema/patterns.ts";
import type { Overload } from "../function.ts";
import {
  ACCUMULATOR,
  type Call,
  type Comprehension,
  type Expr,
  type ListExpr,
  type MapExpr,
  type Select,
} from "../syntax/ast.ts";
import { type CelType, paramAt } from "../type.ts";
import { CelError, CelMap, type CelValue, isList, Optional, typeOf, TypeValue } from "../value.ts";
import { access, accessOptional, isPresent } from "./access.ts";
import { describe } from "./describe.ts";
import { isEqual } from "./equality.ts";
import { type Evaluate, Frame } from "./frame.ts";
import { iterate } from "./iterate.ts";
import { remembering } from "./remembering.ts";

/** Makes of a checked expression a function that evaluates it. */
export function compileProgram(checked: Checked): Evaluate {
  return new Compiler(checked).compile(checked.expr);
}

/** What is the same whenever it is evaluated, and has no value. */
export class ProgramError extends Error {
  static {
    this.prototype.name = "ProgramError";
  }
}

/** With an argument that is known they are evaluated once. */
const FOLDED = new Set([
  "bool",
  "bytes",
  "double",
  "duration",
  "dyn",
  "int",
  "string",
  "timestamp",
  "type",
  "uint",
]);

/** They look at the values themselves, and take any. */
const UNGUARDED = new Set(["sort", "@sortByAssociatedKeys"]);

/** Operators and others by what their first operand is. */
const BY_FIRST = new Set(["_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "-_", "size"]);

/** Unit: cost. Source: cel-go, common/cost.go. */
const LIST_COST = 10;
const MAP_COST = 30;

/** The accumulator and up to two variables. */
const SLOTS_OF_FOLD = 3;

type Locals = ReadonlyMap<string, number>;

class Compiler {
  readonly #checked: Checked;
  #locals: Locals = new Map();
  /** The values of constant expressions. */
  readonly #constants = new Map<Expr, CelValue>();
  /** Folds around. */
  #depth = 0;

  constructor(checked: Checked) {
    this.#checked = checked;
  }

  compile(expr: Expr): Evaluate {
    switch (expr.kind) {
      case "literal": {
        const { value } = expr;
        this.#constants.set(expr, value);
        return () => value;
      }
      case "ident":
        return this.#ident(expr, expr.name);
      case "select":
        return this.#select(expr);
      case "call":
        return this.#call(expr);
      case "list":
        return this.#list(expr);
      case "map":
        return this.#map(expr);
      case "struct":
        throw new CelError(`unknown type: ${expr.name}`);
      default:
        return this.#comprehension(expr);
    }
  }

  #ident(expr: Expr, name: string): Evaluate {
    const slot = this.#locals.get(name);
    if (slot !== undefined) return (frame) => readSlot(frame, slot);
    const plain = name.startsWith(".") ? name.slice(1) : name;
    const type = this.#checked.types.get(expr);
    return (frame) => {
      const value = frame.variables.get(plain);
      frame.charge(1);
      if (value !== undefined) return value;
      if (type?.kind === "type") return new TypeValue(paramAt(type, 0));
      throw new CelError(`no such attribute(s): ${plain}`);
    };
  }

  #select(expr: Select): Evaluate {
    const name = this.#checked.names.get(expr);
    if (name !== undefined) return this.#ident(expr, name);
    const { field, isTest } = expr;
    const operand = this.compile(expr.operand);
    if (isTest) return (frame) => isPresent(operand(frame), field);
    return (frame) => {
      const target = operand(frame);
      frame.charge(1);
      return access(target, field);
    };
  }

  #call(expr: Call): Evaluate {
    const [first, second, third] = expr.args;
    if (first === undefined) return this.#function(expr);
    if (expr.name === "@not_strictly_false") return notStrictlyFalse(this.compile(first));
    if (expr.target !== undefined) {
      const isAlternative = expr.name === "or" || expr.name === "orValue";
      return isAlternative
        ? this.#alternative(expr.target, first, expr.name === "orValue")
        : this.#function(expr);
    }
    if (second === undefined) return this.#function(expr);
    if (third !== undefined && expr.name === "_?_:_") return this.#conditional(first, second, third);
    return this.#binary(expr, first, second);
  }

  /** Operators that have to see their operands before these have values. */
  #binary(expr: Call, first: Expr, second: Expr): Evaluate {
    switch (expr.name) {
      case "_&&_":
        return this.#logical(expr, false);
      case "_||_":
        return this.#logical(expr, true);
      case "_==_":
      case "_!=_":
        return this.#equality(expr, first, second);
      case "_[_]":
        return this.#accessBy(first, second, access);
      case "_?._":
      case "_[?_]":
        return this.#accessBy(first, second, accessOptional);
      case "_+_":
        return this.#appending(first, second) ?? this.#function(expr);
      default:
        return this.#function(expr);
    }
  }

  #logical({ args }: Call, decisive: boolean): Evaluate {
    const [left, right] = args.map((it) => this.compile(it));
    if (left === undefined || right === undefined)
      throw new RangeError("a logical operator has two operands");
    return (frame) => {
      let error: CelError | undefined;
      for (const operand of [left, right]) {
        const value = attempt(operand, frame);
        if (value === decisive) return decisive;
        if (value instanceof CelError) error ??= value;
        else if (typeof value !== "boolean") error ??= new CelError("no such overload");
      }
      if (error !== undefined) throw error;
      return !decisive;
    };
  }

  #conditional(condition: Expr, whenTrue: Expr, whenFalse: Expr): Evaluate {
    const test = this.compile(condition);
    const yes = this.compile(whenTrue);
    const no = this.compile(whenFalse);
    return (frame) => {
      const value = test(frame);
      if (typeof value !== "boolean") throw new CelError("no such overload");
      return value ? yes(frame) : no(frame);
    };
  }

  #equality(expr: Call, first: Expr, second: Expr): Evaluate {
    const left = this.compile(first);
    const right = this.compile(second);
    const wanted = expr.name === "_==_";
    const id = wanted ? "equals" : "not_equals";
    return (frame) => {
      const args = [left(frame), right(frame)] as const;
      frame.charge(actualCost(expr.name, id, args, true));
      return isEqual(args[0], args[1]) === wanted;
    };
  }

  #accessBy(first: Expr, second: Expr, get: (target: CelValue, key: CelValue) => CelValue): Evaluate {
    const target = this.compile(first);
    const key = this.compile(second);
    return (frame) => {
      const value = target(frame);
      const found = get(value, key(frame));
      // Absent values have no cost.
      frame.charge(found === Optional.NONE ? 0 : 1);
      return found;
    };
  }

  /** The alternative to an absent value is only evaluated if needed. */
  #alternative(first: Expr, second: Expr, isUnwrapped: boolean): Evaluate {
    const target = this.compile(first);
    const other = this.compile(second);
    return (frame) => {
      const value = target(frame);
      if (!(value instanceof Optional)) return value;
      if (!value.hasValue) return other(frame);
      return isUnwrapped ? value.value : value;
    };
  }

  /** `accumulator + [item]`: the list is the fold's own, and grows in place. */
  #appending(first: Expr, second: Expr): Evaluate | undefined {
    if (first.kind !== "ident" || first.name !== ACCUMULATOR || second.kind !== "list") return undefined;
    const slot = this.#locals.get(first.name);
    const [item] = second.items;
    if (slot === undefined || item === undefined || item.isOptional) return undefined;
    const value = this.compile(item.value);
    return (frame) => {
      const list = readSlot(frame, slot);
      frame.charge(LIST_COST + 1);
      (list as CelValue[]).push(value(frame));
      return list;
    };
  }

  #function(expr: Call): Evaluate {
    const name = this.#checked.names.get(expr) ?? expr.name;
    const overloads = this.#checked.overloads.get(expr) ?? [];
    const target = this.#checked.names.has(expr) ? undefined : expr.target;
    const args = [...(target === undefined ? [] : [target]), ...expr.args].map((it) => this.compile(it));
    const all = this.#checked.functions.get(name) ?? [];
    this.#checkPattern(name, expr.args[0]);
    const id = overloads.length === 1 ? (overloads[0]?.id ?? "") : "";
    const call = (values: readonly CelValue[]): CelValue => {
      const run = select(overloads, values, { name, all }).run as (...them: readonly CelValue[]) => CelValue;
      return run(...values);
    };
    const compute = remembering(name, call);
    const evaluate: Evaluate = (frame) => {
      const values = args.map((it) => it(frame));
      const result = compute(values);
      frame.charge(actualCost(name, id, values, result));
      return result;
    };
    const [only] = expr.args;
    return only !== undefined && expr.args.length === 1 && FOLDED.has(name)
      ? this.#fold(expr, only, evaluate)
      : evaluate;
  }

  #checkPattern(name: string, pattern: Expr | undefined): void {
    if ((name !== "find" && name !== "findAll") || pattern?.kind !== "literal") return;
    const compiled = typeof pattern.value === "string" ? compilePattern(pattern.value) : undefined;
    if (compiled instanceof Error) throw new ProgramError(compiled.message);
  }

  #fold(expr: Expr, arg: Expr, evaluate: Evaluate): Evaluate {
    if (!this.#constants.has(arg)) return evaluate;
    try {
      const value = evaluate(new Frame(new Map(), Infinity));
      this.#constants.set(expr, value);
      return () => value;
    } catch (error) {
      if (error instanceof CelError) throw new ProgramError(error.message);
      throw error;
    }
  }

  /** The cost of a list or map literal: zero if it is constant. */
  #costOf(expr: Expr, parts: readonly Expr[], cost: number): number {
    if (!parts.every((it) => this.#constants.has(it))) return cost;
    this.#constants.set(expr, null);
    return 0;
  }

  #list(expr: ListExpr): Evaluate {
    const { items } = expr;
    const parts = items.map(({ value, isOptional }) => ({ value: this.compile(value), isOptional }));
    const cost = this.#costOf(
      expr,
      items.map(({ value }) => value),
      LIST_COST,
    );
    return (frame) => {
      const list: CelValue[] = [];
      for (const { value, isOptional } of parts) {
        const item = value(frame);
        if (!isOptional) list.push(item);
        else if (!(item instanceof Optional)) {
          const shown = describe(item);
          throw new CelError(`cannot initialize optional list element from non-optional value ${shown}`);
        } else if (item.hasValue) list.push(item.value);
      }
      frame.charge(cost);
      return list;
    };
  }

  #map(expr: MapExpr): Evaluate {
    const { entries } = expr;
    const parts = entries.map((it) => ({
      key: this.compile(it.key),
      value: this.compile(it.value),
      isOptional: it.isOptional,
    }));
    const cost = this.#costOf(
      expr,
      entries.flatMap(({ key, value }) => [key, value]),
      MAP_COST,
    );
    return (frame) => {
      const map = new CelMap();
      for (const part of parts) {
        const key = part.key(frame);
        const value = part.value(frame);
        if (!part.isOptional) map.set(key, value);
        else if (!(value instanceof Optional)) {
          const shown = `'${describe(key)}' from non-optional value ${describe(value)}`;
          throw new CelError(`cannot initialize optional entry ${shown}`);
        } else if (value.hasValue) map.set(key, value.value);
      }
      frame.charge(cost);
      return map;
    };
  }

  #comprehension(expr: Comprehension): Evaluate {
    const outside = this.#locals;
    const range = this.compile(expr.range);
    const init = this.compile(expr.accuInit);
    const accu = this.#depth++ * SLOTS_OF_FOLD;
    const withAccu = new Map(outside).set(expr.accuVar, accu);
    const { iterVar2 } = expr;
    this.#locals = new Map([...withAccu, [expr.iterVar, accu + 1], [iterVar2 ?? "", accu + 2]]);
    const condition = this.compile(expr.condition);
    const step = this.compile(expr.step);
    this.#locals = withAccu;
    const result = this.compile(expr.result);
    this.#locals = outside;
    this.#depth--;
    return (frame) => {
      const over = range(frame);
      frame.slots[accu] = attempt(init, frame);
      iterate(over, iterVar2 !== undefined, (first, second) => {
        frame.slots[accu + 1] = first;
        frame.slots[accu + 2] = second;
        if (condition(frame) !== true) return false;
        frame.slots[accu] = attempt(step, frame);
        return true;
      });
      return result(frame);
    };
  }
}

function readSlot(frame: Frame, slot: number): CelValue {
  frame.charge(1);
  const value = frame.slots[slot];
  if (value instanceof CelError) throw value;
  return value ?? null;
}

/** The value, or the error in place of it. */
function attempt(evaluate: Evaluate, frame: Frame): CelValue | CelError {
  try {
    return evaluate(frame);
  } catch (error) {
    if (error instanceof CelError) return error;
    throw error;
  }
}

function notStrictlyFalse(operand: Evaluate): Evaluate {
  return (frame) => {
    const value = attempt(operand, frame);
    frame.charge(1);
    return value !== false;
  };
}

function noOverload(name: string, values: readonly CelValue[]): never {
  if (name.startsWith("_") || name.startsWith("@") || name === "!_") throw new CelError("no such overload");
  throw new CelError(`no such overload: ${name}(${values.map((it) => typeOf(it).name).join(", ")})`);
}

/** The overload for arguments of these types. */
function select(
  overloads: readonly Overload[],
  values: readonly CelValue[],
  { name, all }: { readonly name: string; readonly all: readonly Overload[] },
): Overload {
  const [first] = overloads;
  if (first !== undefined && UNGUARDED.has(name)) return first;
  const found = overloads.find((it) => takes(it, values));
  if (found !== undefined) return found;
  const [operand = null] = values;
  if (BY_FIRST.has(name) && !all.some(({ args: [type] }) => type !== undefined && isOfType(operand, type))) {
    throw new CelError(`no such overload: ${name}`);
  }
  return noOverload(name, values);
}

function takes({ args }: Overload, values: readonly CelValue[]): boolean {
  return args.length === values.length && args.every((type, at) => isOfType(values[at] ?? null, type));
}

/** The type of a list or map is that of its first item. */
function isOfType(value: CelValue, type: CelType): boolean {
  if (type.kind === "dyn" || type.kind === "param") return true;
  const { kind, name } = typeOf(value);
  if (type.kind === "map") return value instanceof CelMap;
  if (type.kind === "list") {
    const first = isList(value) ? value[0] : undefined;
    return isList(value) && (first === undefined || isOfType(first, paramAt(type, 0)));
  }
  return type.kind === "opaque" || type.kind === "struct" ? name === type.name : kind === type.kind;
}
