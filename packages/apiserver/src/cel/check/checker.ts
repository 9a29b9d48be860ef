import type { Functions, Overload } from "../function.ts";
import type { Call, Comprehension, Expr, ListExpr, MapExpr, Select, StructExpr } from "../syntax/ast.ts";
import { qualifiedName } from "../syntax/ast.ts";
import type { Problem } from "../syntax/problems.ts";
import {
  BOOL,
  type CelType,
  DYN,
  ERROR,
  formatCall,
  formatType,
  INT,
  isOptional,
  isSameType,
  listOf,
  mapOf,
  optionalOf,
  paramAt,
  paramType,
  unwrapOptional,
} from "../type.ts";
import { typeOf } from "../value.ts";
import { mostGeneral, Substitutions } from "./assign.ts";

/** The declarations for checking an expression. */
export interface Declarations {
  readonly functions: Functions;
  readonly variables: ReadonlyMap<string, CelType>;
}

/** The result of the checker. */
export interface Checked {
  readonly expr: Expr;
  readonly functions: Functions;
  readonly types: ReadonlyMap<Expr, CelType>;
  /** The overloads that a call may resolve to, by the types of its arguments at evaluation. */
  readonly overloads: ReadonlyMap<Expr, readonly Overload[]>;
  /** Names of more than one part that stand for a variable or a function. */
  readonly names: ReadonlyMap<Expr, string>;
  readonly problems: readonly Problem[];
}

export function check(expr: Expr, declarations: Declarations): Checked {
  return new Checker(declarations).run(expr);
}

type Scope = ReadonlyMap<string, CelType>;

class Checker {
  readonly #functions: Functions;
  readonly #variables: Scope;
  readonly #types = new Map<Expr, CelType>();
  readonly #overloads = new Map<Expr, readonly Overload[]>();
  readonly #names = new Map<Expr, string>();
  readonly #problems: Problem[] = [];
  readonly #substitutions = new Substitutions();
  #scope: Scope = new Map();
  #freeParams = 0;

  constructor({ functions, variables }: Declarations) {
    this.#functions = functions;
    this.#variables = variables;
  }

  run(expr: Expr): Checked {
    this.#check(expr);
    for (const [node, type] of this.#types) this.#types.set(node, this.#substitutions.apply(type, true));
    return {
      expr,
      functions: this.#functions,
      types: this.#types,
      overloads: this.#overloads,
      names: this.#names,
      problems: this.#problems,
    };
  }

  #check(expr: Expr): CelType {
    const type = this.#typeOf(expr);
    this.#types.set(expr, type);
    return type;
  }

  #report({ at }: { readonly at: number }, message: string): CelType {
    this.#problems.push({ at, message });
    return ERROR;
  }

  #typeOf(expr: Expr): CelType {
    switch (expr.kind) {
      case "literal":
        return typeOf(expr.value);
      case "ident":
        return this.#lookUp(expr.name) ?? this.#undeclared(expr, expr.name);
      case "select":
        return this.#select(expr);
      case "call":
        return this.#call(expr);
      case "list":
        return this.#list(expr);
      case "map":
        return this.#map(expr);
      case "struct":
        return this.#struct(expr);
      default:
        return this.#comprehension(expr);
    }
  }

  #lookUp(name: string): CelType | undefined {
    const plain = name.startsWith(".") ? name.slice(1) : name;
    return (plain === name ? this.#scope.get(name) : undefined) ?? this.#variables.get(plain);
  }

  #undeclared(expr: Expr, name: string): CelType {
    return this.#report(expr, `undeclared reference to '${name}' (in container '')`);
  }

  #select(expr: Select): CelType {
    const name = qualifiedName(expr);
    const variable = name === undefined ? undefined : this.#lookUp(name);
    if (name !== undefined && variable !== undefined) {
      this.#names.set(expr, name);
      return variable;
    }
    const field = this.#field(expr, expr.operand, expr.field);
    return expr.isTest ? BOOL : this.#substitutions.apply(field, false);
  }

  #field(expr: Expr, operand: Expr, field: string): CelType {
    const found = this.#substitutions.apply(this.#check(operand), false);
    const type = this.#fieldOf(expr, unwrapOptional(found), field);
    return isOptional(found) && !isOptionalSelect(expr) ? optionalOf(type) : type;
  }

  #fieldOf(expr: Expr, target: CelType, field: string): CelType {
    switch (target.kind) {
      case "map":
        return paramAt(target, 1);
      case "struct":
        if (target.fields === undefined) {
          return this.#report(expr, `unexpected failed resolution of '${target.name}'`);
        }
        return target.fields.get(field) ?? this.#report(expr, `undefined field '${field}'`);
      case "param":
        this.#substitutions.assign([DYN], [target]);
        return DYN;
      case "dyn":
      case "error":
        return DYN;
      default:
        this.#report(expr, `type '${formatType(target)}' does not support field selection`);
        return DYN;
    }
  }

  #call(expr: Call): CelType {
    if (expr.name === "_?._") return this.#optionalSelect(expr);
    for (const arg of expr.args) this.#check(arg);
    if (expr.target === undefined) return this.#resolve(expr, expr.name, expr.args);
    const prefix = qualifiedName(expr.target);
    const full = prefix === undefined ? undefined : plainName(`${prefix}.${expr.name}`);
    if (full !== undefined && this.#functions.has(full)) {
      this.#names.set(expr, full);
      return this.#resolve(expr, full, expr.args);
    }
    this.#check(expr.target);
    return this.#resolve(expr, expr.name, [expr.target, ...expr.args]);
  }

  #optionalSelect(expr: Call): CelType {
    const [operand, field] = expr.args;
    if (operand === undefined || field?.kind !== "literal" || typeof field.value !== "string") return ERROR;
    this.#types.set(field, typeOf(field.value));
    const type = this.#field(expr, operand, field.value);
    this.#overloads.set(expr, this.#functions.get(expr.name) ?? []);
    return this.#substitutions.apply(optionalOf(type), false);
  }

  #resolve(expr: Call, name: string, args: readonly Expr[]): CelType {
    const overloads = this.#functions.get(plainName(name));
    if (overloads === undefined) return this.#undeclared(expr, name);
    const types = args.map((it) => this.#types.get(it) ?? DYN);
    if (name === "_&&_" || name === "_||_") return this.#logical(expr, args, overloads);
    const isMember = args.length > expr.args.length;
    const matching: Overload[] = [];
    let result: CelType | undefined;
    for (const overload of overloads) {
      const found = overload.isMember === isMember ? this.#match(overload, types) : undefined;
      if (found === undefined) continue;
      matching.push(overload);
      if (result === undefined) result = found;
      else if (result.kind !== "dyn" && !isSameType(found, result)) result = DYN;
    }
    this.#overloads.set(expr, matching);
    if (result !== undefined) return result;
    const shown = types.map((it) => this.#substitutions.apply(it, true));
    const applied = formatCall(shown, isMember);
    return this.#report(expr, `found no matching overload for '${plainName(name)}' applied to '${applied}'`);
  }

  /** The result type of an overload for arguments of these types; undefined if it does not match. */
  #match(overload: Overload, types: readonly CelType[]): CelType | undefined {
    if (overload.args.length !== types.length) return undefined;
    if (overload.params.length === 0) {
      return this.#substitutions.assign(types, overload.args) ? overload.result : undefined;
    }
    const fresh = new Substitutions(new Map(overload.params.map((it) => [it, this.#freeParam()])));
    const args = overload.args.map((it) => fresh.apply(it, false));
    if (!this.#substitutions.assign(types, args)) return undefined;
    return this.#substitutions.apply(fresh.apply(overload.result, false), false);
  }

  #logical(expr: Call, args: readonly Expr[], overloads: readonly Overload[]): CelType {
    this.#overloads.set(expr, overloads);
    const wrong = args.filter((it) => !this.#substitutions.assign([this.#typeOfChecked(it)], [BOOL]));
    for (const it of wrong) {
      this.#report(it, `expected type 'bool' but found '${formatType(this.#typeOfChecked(it))}'`);
    }
    return wrong.length === 0 ? BOOL : ERROR;
  }

  #typeOfChecked(expr: Expr): CelType {
    return this.#types.get(expr) ?? DYN;
  }

  #freeParam(): CelType {
    return paramType(`_var${this.#freeParams++}`);
  }

  #element(expr: Expr, isElementOptional: boolean): CelType {
    const type = this.#check(expr);
    if (!isElementOptional || type.kind === "dyn") return type;
    if (!isOptional(type)) this.#mismatch(expr, optionalOf(type), type);
    return unwrapOptional(type);
  }

  #mismatch(expr: Expr, expected: CelType, found: CelType): CelType {
    return this.#report(expr, `expected type '${formatType(expected)}' but found '${formatType(found)}'`);
  }

  #join(before: CelType | undefined, type: CelType): CelType {
    if (before === undefined) return type;
    return this.#substitutions.assign([before], [type]) ? mostGeneral(before, type) : DYN;
  }

  #list({ items }: ListExpr): CelType {
    let type: CelType | undefined;
    for (const { value, isOptional: isItemOptional } of items) {
      type = this.#join(type, this.#element(value, isItemOptional));
    }
    return listOf(type ?? this.#freeParam());
  }

  #map({ entries }: MapExpr): CelType {
    let keyType: CelType | undefined;
    let valueType: CelType | undefined;
    for (const { key, value, isOptional: isEntryOptional } of entries) {
      keyType = this.#join(keyType, this.#check(key));
      valueType = this.#join(valueType, this.#element(value, isEntryOptional));
    }
    return mapOf(keyType ?? this.#freeParam(), valueType ?? this.#freeParam());
  }

  /** There are no messages to make. */
  #struct(expr: StructExpr): CelType {
    const found = this.#lookUp(expr.name);
    if (found === undefined) return this.#undeclared(expr, expr.name);
    if (found.kind !== "type") {
      this.#report(expr, `'${formatType(found)}' is not a type`);
      for (const field of expr.fields) {
        this.#check(field.value);
        this.#report(field, `unexpected failed resolution of '${expr.name}'`);
      }
      return ERROR;
    }
    return this.#report(expr, `'${paramAt(found, 0).name}' is not a message type`);
  }

  #comprehension(expr: Comprehension): CelType {
    const { range, accuInit, accuVar, iterVar, iterVar2, condition, step, result } = expr;
    const rangeType = this.#substitutions.apply(this.#check(range), false);
    const accuType = this.#check(accuInit);
    const outside = this.#scope;
    const withResult = new Map(outside).set(accuVar, accuType);
    const [first, second] = this.#iterated(range, rangeType, iterVar2 !== undefined);
    const inside = new Map(withResult).set(iterVar, first);
    this.#scope = iterVar2 === undefined ? inside : inside.set(iterVar2, second);
    this.#assert(condition, BOOL);
    this.#assert(step, accuType);
    this.#scope = withResult;
    const type = this.#check(result);
    this.#scope = outside;
    return this.#substitutions.apply(type, false);
  }

  #assert(expr: Expr, expected: CelType): void {
    const type = this.#check(expr);
    if (!this.#substitutions.assign([expected], [type])) this.#mismatch(expr, expected, type);
  }

  /** The types of the variables of a fold over `type`. */
  #iterated(range: Expr, type: CelType, hasTwo: boolean): readonly [CelType, CelType] {
    switch (type.kind) {
      case "list":
        return hasTwo ? [INT, paramAt(type, 0)] : [paramAt(type, 0), DYN];
      case "map":
        return [paramAt(type, 0), paramAt(type, 1)];
      case "dyn":
      case "error":
      case "param":
        this.#substitutions.assign([DYN], [type]);
        return [DYN, DYN];
      default:
        this.#report(
          range,
          `expression of type '${formatType(type)}' cannot be range of a comprehension (must be list, map, or dynamic)`,
        );
        return [ERROR, ERROR];
    }
  }
}

function plainName(name: string): string {
  return name.startsWith(".") ? name.slice(1) : name;
}

function isOptionalSelect(expr: Expr): boolean {
  return expr.kind === "call" && expr.name === "_?._";
}
