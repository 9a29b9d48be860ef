import type { Checked } from "../check/checker.ts";
import type { DeclaredType } from "../schema/declared-type.ts";
import type { Call, Comprehension, Expr, ListExpr, MapExpr, Select } from "../syntax/ast.ts";
import { type CelType, DYN, isOptional, paramAt } from "../type.ts";
import { sizeOf } from "../value.ts";
import { type CallEstimate, estimateCall, type Operand } from "./estimate-call.ts";
import { add, exactly, multiply, NOTHING, ONE, type Range, union, UNKNOWN } from "./range.ts";

/**
 * Most that an expression may cost, whatever its variables hold. Sources: cel-go, checker/cost.go; k8s.io/apiserver,
 * pkg/cel/library/cost.go.
 *
 * @param root - The type of the values that `self` and `oldSelf` may hold.
 */
export function estimateCost(checked: Checked, root: DeclaredType | undefined): Range {
  return new Estimator(checked, root).cost(checked.expr);
}

const LIST_CREATE = exactly(10);
const MAP_CREATE = exactly(30);
const STRUCT_CREATE = exactly(40);

/** How large the keys and the values of a list or map are. */
interface Entries {
  readonly isList: boolean;
  readonly key: Range;
  readonly value: Range;
}

interface Local {
  readonly path: readonly string[];
  readonly size: Range | undefined;
  readonly entries: Entries | undefined;
}

interface MadeCall {
  readonly expr: Call;
  readonly name: string;
  readonly id: string;
  readonly target: Operand | undefined;
  readonly args: readonly Operand[];
  readonly argCosts: readonly Range[];
}

class Estimator {
  readonly #checked: Checked;
  readonly #root: DeclaredType | undefined;
  readonly #paths = new Map<Expr, readonly string[]>();
  readonly #sizes = new Map<Expr, Range>();
  readonly #entries = new Map<Expr, Entries>();
  readonly #locals = new Map<string, Local[]>();

  constructor(checked: Checked, root: DeclaredType | undefined) {
    this.#checked = checked;
    this.#root = root;
  }

  cost(expr: Expr): Range {
    switch (expr.kind) {
      case "literal":
        return NOTHING;
      case "ident":
        this.#paths.set(expr, this.#local(expr.name)?.path ?? [expr.name]);
        return ONE;
      case "select":
        return this.#select(expr);
      case "call":
        return this.#call(expr);
      case "list":
        return this.#list(expr);
      case "map":
        return this.#map(expr);
      case "struct":
        return STRUCT_CREATE;
      default:
        return isBind(expr) ? this.#bind(expr) : this.#comprehension(expr);
    }
  }

  #select(expr: Select): Range {
    const operand = this.cost(expr.operand);
    if (expr.isTest) return operand;
    this.#paths.set(expr, [...this.#path(expr.operand), expr.field]);
    const { kind } = this.#type(expr.operand);
    return kind === "map" || kind === "struct" || kind === "param" ? add(operand, ONE) : operand;
  }

  #type(expr: Expr): CelType {
    return this.#checked.types.get(expr) ?? DYN;
  }

  #local(name: string): Local | undefined {
    return this.#locals.get(name)?.at(-1);
  }

  #path(expr: Expr): readonly string[] {
    const local = expr.kind === "ident" ? this.#local(expr.name) : undefined;
    return local?.path ?? this.#paths.get(expr) ?? [];
  }

  /** Runs with a name that stands for something else inside. */
  #within<T>(name: string, local: Local, run: () => T): T {
    const stack = this.#locals.get(name) ?? [];
    this.#locals.set(name, [...stack, local]);
    const result = run();
    this.#locals.set(name, stack);
    return result;
  }

  #size(expr: Expr): Range | undefined {
    const known = this.#sizes.get(expr) ?? sizeOfText(expr);
    if (known !== undefined) return known;
    const declared = sizeAt(this.#root, this.#path(expr));
    if (declared !== undefined) return declared;
    if (isScalar(this.#type(expr))) return ONE;
    return expr.kind === "ident" ? this.#local(expr.name)?.size : undefined;
  }

  #entriesOf(expr: Expr): Entries | undefined {
    return this.#entries.get(expr) ?? (expr.kind === "ident" ? this.#local(expr.name)?.entries : undefined);
  }

  #operand(expr: Expr): Operand {
    const path = this.#path(expr);
    const type = this.#type(expr);
    const isOwn = path[0] === "@result";
    return {
      expr,
      type,
      size: this.#size(expr),
      elementType: type.params[0],
      elementSize: isOwn || path.length === 0 ? undefined : sizeAt(this.#root, [...path, "@items"]),
    };
  }

  #call(expr: Call): Range {
    const argCosts = expr.args.map((it) => this.cost(it));
    const args = expr.args.map((it) => this.#operand(it));
    const name = this.#checked.names.get(expr) ?? expr.name;
    if (name === "dyn") return this.#dyn(expr, argCosts);
    const target = this.#checked.names.has(expr) ? undefined : expr.target;
    const targetCost = target === undefined ? NOTHING : this.cost(target);
    const on = target === undefined ? undefined : this.#operand(target);
    return add(targetCost, this.#overloads({ expr, name, target: on, args, argCosts }));
  }

  /** Of all the overloads that a call may turn out to be. */
  #overloads(made: Omit<MadeCall, "id">): Range {
    const { expr } = made;
    const overloads = this.#checked.overloads.get(expr) ?? [];
    if (overloads.length === 0) return NOTHING;
    let cost: Range = { min: Infinity, max: 0 };
    let size: Range | undefined;
    for (const { id } of overloads) {
      const found = this.#overload({ ...made, id });
      cost = union(cost, found.cost);
      if (found.size !== undefined) size = size === undefined ? found.size : union(size, found.size);
      size = this.#indexed(expr, id) ?? size ?? this.#size(expr);
    }
    if (size !== undefined) this.#sizes.set(expr, size);
    return cost;
  }

  #dyn(expr: Call, argCosts: readonly Range[]): Range {
    const [arg] = expr.args;
    if (arg !== undefined) this.#copy(expr, arg);
    return add(ONE, ...argCosts);
  }

  /** The range of an indexed element. */
  #indexed(expr: Call, id: string): Range | undefined {
    const [first] = expr.args;
    if (first === undefined || (id !== "index_list" && id !== "index_map")) return undefined;
    this.#paths.set(expr, [...this.#path(first), id === "index_list" ? "@items" : "@values"]);
    return this.#entriesOf(first)?.value;
  }

  #overload(made: MadeCall): { readonly cost: Range; readonly size?: Range | undefined } {
    const { expr, id, argCosts } = made;
    const [first = NOTHING, second = NOTHING] = argCosts;
    if (id === "logical_and" || id === "logical_or") {
      return { cost: { min: first.min, max: first.max + second.max } };
    }
    if (id === "conditional") return this.#conditional(expr, argCosts);
    const [left, right] = expr.args;
    if (id.startsWith("add_") && left !== undefined && right !== undefined) this.#join(expr, left, right);
    const { cost, size } = estimateCall(made);
    return { cost: add(cost, ...argCosts), size };
  }

  #conditional(
    expr: Call,
    [condition = NOTHING, yes = NOTHING, no = NOTHING]: readonly Range[],
  ): CallEstimate {
    const [, left, right] = expr.args;
    const cost = add(condition, union(yes, no));
    if (left === undefined || right === undefined) return { cost };
    this.#join(expr, left, right);
    return { cost, size: union(this.#size(left) ?? UNKNOWN, this.#size(right) ?? UNKNOWN) };
  }

  #join(expr: Expr, a: Expr, b: Expr): void {
    const [left, right] = [this.#entriesOf(a), this.#entriesOf(b)];
    if (left === undefined || right === undefined) return;
    this.#entries.set(expr, {
      isList: left.isList,
      key: union(left.key, right.key),
      value: union(left.value, right.value),
    });
  }

  #copy(to: Expr, from: Expr): void {
    const size = this.#size(from);
    if (size !== undefined) this.#sizes.set(to, size);
    const entries = this.#entriesOf(from);
    if (entries !== undefined) this.#entries.set(to, entries);
  }

  #list(expr: ListExpr): Range {
    const values = expr.items.map(({ value }) => value);
    const cost = add(LIST_CREATE, ...values.map((it) => this.cost(it)));
    this.#entries.set(expr, { isList: true, key: ONE, value: this.#all(values) });
    return cost;
  }

  #map(expr: MapExpr): Range {
    const keys = expr.entries.map(({ key }) => key);
    const values = expr.entries.map(({ value }) => value);
    const cost = add(MAP_CREATE, ...[...keys, ...values].map((it) => this.cost(it)));
    this.#entries.set(expr, { isList: false, key: this.#all(keys), value: this.#all(values) });
    return cost;
  }

  #all(exprs: readonly Expr[]): Range {
    if (exprs.length === 0) return NOTHING;
    return exprs.map((it) => this.#size(it) ?? UNKNOWN).reduce((a, b) => union(a, b));
  }

  #comprehension(expr: Comprehension): Range {
    const { range, accuInit, accuVar } = expr;
    const before = add(this.cost(range), this.cost(accuInit));
    const accumulated = {
      path: this.#path(accuInit),
      size: this.#size(accuInit),
      entries: this.#entriesOf(accuInit),
    };
    const [loop, result] = this.#within(
      accuVar,
      accumulated,
      () => [this.#loop(expr), this.cost(expr.result)] as const,
    );
    const count = this.#size(range) ?? UNKNOWN;
    if (accuInit.kind === "list" || accuInit.kind === "map") {
      this.#sizes.set(expr, count);
      const entries = this.#entries.get(expr.step);
      if (entries !== undefined) this.#entries.set(expr, entries);
    } else if (accuInit.kind === "literal") this.#sizes.set(expr, this.#size(accuInit) ?? UNKNOWN);
    return add(before, result, multiply(count, loop));
  }

  /** One turn of a fold. */
  #loop({ range, iterVar, iterVar2, condition, step }: Comprehension): Range {
    const entries = this.#entriesOf(range);
    const isList = entries?.isList ?? this.#type(range).kind === "list";
    const path = this.#path(range);
    const key = { path: [...path, isList ? "@indices" : "@keys"], size: entries?.key, entries: undefined };
    const value = {
      path: [...path, isList ? "@items" : "@values"],
      size: entries?.value,
      entries: undefined,
    };
    const turn = (): Range => add(this.cost(condition), this.cost(step));
    if (iterVar2 === undefined) return this.#within(iterVar, isList ? value : key, turn);
    return this.#within(iterVar, key, () => this.#within(iterVar2, value, turn));
  }

  #bind(expr: Comprehension): Range {
    const { accuInit, accuVar, result } = expr;
    const before = add(this.cost(expr.range), this.cost(accuInit));
    const local = {
      path: this.#path(accuInit),
      size: this.#size(accuInit),
      entries: this.#entriesOf(accuInit),
    };
    return this.#within(accuVar, local, () => {
      const cost = add(before, this.cost(result));
      this.#copy(expr, result);
      return cost;
    });
  }
}

/** A name for a value: a fold over nothing. */
function isBind({ range, condition }: Comprehension): boolean {
  return (
    range.kind === "list" &&
    range.items.length === 0 &&
    condition.kind === "literal" &&
    condition.value === false
  );
}

/** The size of what the text gives. */
function sizeOfText(expr: Expr): Range | undefined {
  switch (expr.kind) {
    case "literal":
      return exactly(sizeOf(expr.value));
    case "list":
      return exactly(expr.items.length);
    case "map":
      return exactly(expr.entries.length);
    default:
      return undefined;
  }
}

/** The size of the value at a path; the first step is a variable. */
function sizeAt(root: DeclaredType | undefined, path: readonly string[]): Range | undefined {
  if (root === undefined || path.length === 0) return undefined;
  let at: DeclaredType | undefined = root;
  for (const step of path.slice(1)) {
    if (step === "@items" || step === "@values") at = at.element;
    else at = step === "@keys" ? at.key : at.fields?.get(step);
    if (at === undefined) return undefined;
  }
  return { min: 0, max: at.maxElements };
}

const SCALARS = new Set(["bool", "double", "duration", "int", "timestamp", "uint"]);

function isScalar(type: CelType): boolean {
  return SCALARS.has(type.kind) || (isOptional(type) && isScalar(paramAt(type, 0)));
}
