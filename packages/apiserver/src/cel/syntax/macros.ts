import { ACCUMULATOR, call, type Comprehension, type Expr, ident, list, literal } from "./ast.ts";

/**
 * Macros: written like calls, expanded by the parser. Sources: cel-spec, "Macros"; cel-go, extensions two-variable comprehensions,
 * optional types and lists.
 */

/** A macro whose arguments are not what it takes. */
export class MacroError extends Error {
  readonly at: number;
  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

export interface MacroCall {
  readonly at: number;
  readonly name: string;
  readonly target: Expr | undefined;
  readonly args: readonly Expr[];
}

/** @throws {MacroError} */
export function expandMacro(made: MacroCall): Expr | undefined {
  const { at, name, target, args } = made;
  if (target === undefined) return name === "has" && args.length === 1 ? expandHas(at, args) : undefined;
  const expand = MACROS.get(`${name}/${args.length}`);
  return expand?.(at, target, args);
}

type Expand = (at: number, target: Expr, args: readonly Expr[]) => Expr;

interface Fold {
  readonly at: number;
  readonly range: Expr;
  readonly variables: readonly [string, string?];
}

const accumulated = (at: number): Expr => ident(at, ACCUMULATOR);

const MACROS: ReadonlyMap<string, Expand> = new Map<string, Expand>([
  ["all/2", oneVariable("argument must be a simple name", all)],
  ["exists/2", oneVariable("argument must be a simple name", exists)],
  ["exists_one/2", oneVariable("argument must be a simple name", existsOne)],
  ["map/2", oneVariable("argument is not an identifier", transformList)],
  ["map/3", oneVariable("argument is not an identifier", transformList)],
  ["filter/2", expandFilter],
  ["all/3", twoVariables(all)],
  ["exists/3", twoVariables(exists)],
  ["existsOne/3", twoVariables(existsOne)],
  ["exists_one/3", twoVariables(existsOne)],
  ["transformList/3", twoVariables(transformList)],
  ["transformList/4", twoVariables(transformList)],
  ["transformMap/3", twoVariables(transformMap)],
  ["transformMap/4", twoVariables(transformMap)],
  ["transformMapEntry/3", twoVariables(transformMapEntry)],
  ["transformMapEntry/4", twoVariables(transformMapEntry)],
  ["optMap/2", expandOptMap],
  ["optFlatMap/2", expandOptFlatMap],
  ["sortBy/2", expandSortBy],
]);

function expandHas(at: number, [arg]: readonly Expr[]): Expr {
  if (arg?.kind !== "select" || arg.isTest)
    throw new MacroError(arg?.at ?? at, "invalid argument to has() macro");
  return { ...arg, at, isTest: true };
}

function variableName(arg: Expr | undefined, problem: string): string {
  if (arg?.kind !== "ident") throw new MacroError(arg?.at ?? 0, problem);
  if (arg.name === "__result__") {
    throw new MacroError(arg.at, "iteration variable overwrites accumulator variable");
  }
  return arg.name;
}

type Build = (fold: Fold, args: readonly Expr[]) => Expr;

function oneVariable(problem: string, build: Build): Expand {
  return (at, range, [variable, ...rest]) =>
    build({ at, range, variables: [variableName(variable, problem)] }, rest);
}

function twoVariables(build: Build): Expand {
  return (at, range, [first, second, ...rest]) => {
    const problem = "argument must be a simple name";
    if (first?.kind !== "ident") throw new MacroError(first?.at ?? at, problem);
    if (second?.kind !== "ident") throw new MacroError(second?.at ?? at, problem);
    if (first.name === second.name) {
      throw new MacroError(second.at, `duplicate variable name: ${first.name}`);
    }
    const variables = [variableName(first, problem), variableName(second, problem)] as const;
    return build({ at, range, variables: [...variables] }, rest);
  };
}

function fold(
  { at, range, variables: [iterVar, iterVar2] }: Fold,
  {
    init,
    condition = literal(at, true),
    step,
    result = accumulated(at),
  }: {
    readonly init: Expr;
    readonly condition?: Expr;
    readonly step: Expr;
    readonly result?: Expr;
  },
): Comprehension {
  return {
    kind: "comprehension",
    at,
    range,
    iterVar,
    iterVar2,
    accuVar: ACCUMULATOR,
    accuInit: init,
    condition,
    step,
    result,
  };
}

function argAt(args: readonly Expr[], at: number): Expr {
  const arg = args[at];
  if (arg === undefined) throw new RangeError("a macro is found by the number of its arguments");
  return arg;
}

function all(of: Fold, args: readonly Expr[]): Expr {
  const { at } = of;
  return fold(of, {
    init: literal(at, true),
    condition: call(at, "@not_strictly_false", accumulated(at)),
    step: call(at, "_&&_", accumulated(at), argAt(args, 0)),
  });
}

function exists(of: Fold, args: readonly Expr[]): Expr {
  const { at } = of;
  return fold(of, {
    init: literal(at, false),
    condition: call(at, "@not_strictly_false", call(at, "!_", accumulated(at))),
    step: call(at, "_||_", accumulated(at), argAt(args, 0)),
  });
}

function existsOne(of: Fold, args: readonly Expr[]): Expr {
  const { at } = of;
  const one = literal(at, 1n);
  return fold(of, {
    init: literal(at, 0n),
    step: when(at, argAt(args, 0), call(at, "_+_", accumulated(at), one)),
    result: call(at, "_==_", accumulated(at), one),
  });
}

/** The step, where the condition holds; else what there is. */
function when(at: number, condition: Expr | undefined, step: Expr): Expr {
  return condition === undefined ? step : call(at, "_?_:_", condition, step, accumulated(at));
}

/** A transformation, and before it, where there are two arguments, a filter. */
function transformation(args: readonly Expr[]): readonly [filter: Expr | undefined, transform: Expr] {
  return args.length === 2 ? [args[0], argAt(args, 1)] : [undefined, argAt(args, 0)];
}

function transformList(of: Fold, args: readonly Expr[]): Expr {
  const { at } = of;
  const [filter, transform] = transformation(args);
  const step = call(at, "_+_", accumulated(at), list(at, transform));
  return fold(of, { init: list(at), step: when(at, filter, step) });
}

function expandFilter(at: number, range: Expr, args: readonly Expr[]): Expr {
  const name = variableName(args[0], "argument is not an identifier");
  const step = call(at, "_+_", accumulated(at), list(at, argAt(args, 0)));
  return fold({ at, range, variables: [name] }, { init: list(at), step: when(at, argAt(args, 1), step) });
}

function transformMap(of: Fold, args: readonly Expr[]): Expr {
  const { at, variables } = of;
  const [filter, transform] = transformation(args);
  const step = call(at, "cel.@mapInsert", accumulated(at), ident(at, variables[0]), transform);
  return fold(of, { init: { kind: "map", at, entries: [] }, step: when(at, filter, step) });
}

function transformMapEntry(of: Fold, args: readonly Expr[]): Expr {
  const { at } = of;
  const [filter, transform] = transformation(args);
  const step = call(at, "cel.@mapInsert", accumulated(at), transform);
  return fold(of, { init: { kind: "map", at, entries: [] }, step: when(at, filter, step) });
}

/** An expression in which a name stands for the value of another. */
function bind(at: number, name: string, value: Expr, result: Expr): Comprehension {
  return {
    kind: "comprehension",
    at,
    range: list(at),
    iterVar: "#unused",
    iterVar2: undefined,
    accuVar: name,
    accuInit: value,
    condition: literal(at, false),
    step: ident(at, name),
    result,
  };
}

function member(at: number, name: string, target: Expr, ...args: readonly Expr[]): Expr {
  return { kind: "call", at, name, target, args };
}

function expandOptMap(at: number, target: Expr, args: readonly Expr[]): Expr {
  return whenPresent(at, target, call(at, "optional.of", bindPresent("optMap", at, target, args)));
}

function expandOptFlatMap(at: number, target: Expr, args: readonly Expr[]): Expr {
  return whenPresent(at, target, bindPresent("optFlatMap", at, target, args));
}

function whenPresent(at: number, target: Expr, result: Expr): Expr {
  return call(at, "_?_:_", member(at, "hasValue", target), result, call(at, "optional.none"));
}

function bindPresent(macro: string, at: number, target: Expr, [variable, result]: readonly Expr[]): Expr {
  if (variable?.kind !== "ident") {
    throw new MacroError(variable?.at ?? at, `${macro}() variable name must be a simple identifier`);
  }
  return bind(at, variable.name, member(at, "value", target), result ?? variable);
}

const SORTED = "@__sortBy_input__";

function expandSortBy(at: number, target: Expr, args: readonly Expr[]): Expr {
  if (target.kind === "literal" || target.kind === "map" || target.kind === "struct") {
    throw new MacroError(
      target.at,
      "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
    );
  }
  const range = ident(at, SORTED);
  const name = variableName(args[0], "argument is not an identifier");
  const keys = transformList({ at, range, variables: [name] }, args.slice(1));
  return bind(at, SORTED, target, member(at, "@sortByAssociatedKeys", range, keys));
}
