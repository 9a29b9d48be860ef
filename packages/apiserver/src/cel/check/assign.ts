import { type CelType, DYN, isSameType, listOf, mapOf, paramAt } from "../type.ts";

/** Which type stands for which parameter. */
export class Substitutions {
  #types: Map<string, CelType>;

  constructor(types: ReadonlyMap<string, CelType> = new Map()) {
    this.#types = new Map(types);
  }

  set(param: string, type: CelType): void {
    this.#types.set(param, type);
  }

  /** Whether values of the types `from` are values of the types `to`; only then are parameters bound. */
  assign(to: readonly CelType[], from: readonly CelType[]): boolean {
    const trial = new Map(this.#types);
    if (!areAssignable(trial, to, from)) return false;
    this.#types = trial;
    return true;
  }

  /** The type with its parameters replaced; those that stand for nothing, where `isFinal`, by `dyn`. */
  apply(type: CelType, isFinal: boolean): CelType {
    if (type.kind === "param") {
      const bound = this.#types.get(type.name);
      if (bound !== undefined) return this.apply(bound, isFinal);
      return isFinal ? DYN : type;
    }
    if (type.params.length === 0) return type;
    const params = type.params.map((it) => this.apply(it, isFinal));
    if (params.every((it, at) => it === type.params[at])) return type;
    if (type.kind === "list") return listOf(params[0] ?? DYN);
    return type.kind === "map" ? mapOf(params[0] ?? DYN, params[1] ?? DYN) : { ...type, params };
  }
}

type Bindings = Map<string, CelType>;

function areAssignable(bound: Bindings, a: readonly CelType[], b: readonly CelType[]): boolean {
  return a.length === b.length && a.every((it, at) => isAssignable(bound, it, b[at] ?? DYN));
}

function isAssignable(bound: Bindings, a: CelType, b: CelType): boolean {
  if (b.kind === "param") {
    const { isValid, isBound } = bindParam(bound, a, b);
    if (isValid) return true;
    if (isBound) return false;
  }
  if (a.kind === "param") return bindParam(bound, b, a).isValid;
  if (isUnknown(a) || isUnknown(b)) return true;
  if (a.kind === "null_type") return isNullable(b);
  if (b.kind === "null_type") return isNullable(a);
  return isConcreteAssignable(bound, a, b);
}

function isConcreteAssignable(bound: Bindings, a: CelType, b: CelType): boolean {
  switch (a.kind) {
    case "type":
      return b.kind === "type";
    case "opaque":
    case "list":
    case "map":
      return a.kind === b.kind && a.name === b.name && areAssignable(bound, a.params, b.params);
    default:
      return isSameType(a, b);
  }
}

function isUnknown({ kind }: CelType): boolean {
  return kind === "dyn" || kind === "error";
}

function isNullable({ kind }: CelType): boolean {
  return ["null_type", "opaque", "struct", "duration", "timestamp"].includes(kind);
}

/** Whether `type` may stand for the parameter, and whether something already did. */
function bindParam(
  bound: Bindings,
  type: CelType,
  param: CelType,
): { readonly isValid: boolean; readonly isBound: boolean } {
  if (isSameType(type, param)) return { isValid: true, isBound: true };
  const known = bound.get(param.name);
  if (known !== undefined) {
    if (isSameType(type, known)) return { isValid: true, isBound: true };
    if (!isAssignable(bound, type, known)) return { isValid: false, isBound: true };
    const general = mostGeneral(type, known);
    if (!mentions(bound, param, general)) bound.set(param.name, general);
    return { isValid: true, isBound: true };
  }
  if (mentions(bound, param, type)) return { isValid: false, isBound: false };
  bound.set(param.name, type);
  return { isValid: true, isBound: false };
}

function mentions(bound: Bindings, param: CelType, within: CelType): boolean {
  if (isSameType(param, within)) return true;
  if (within.kind === "param") {
    const known = bound.get(within.name);
    return known !== undefined && mentions(bound, param, known);
  }
  return within.params.some((it) => mentions(bound, param, it));
}

/** Of two types of which one takes the other's values, the one that takes more. */
export function mostGeneral(a: CelType, b: CelType): CelType {
  return isEqualOrLessSpecific(a, b) ? a : b;
}

function isEqualOrLessSpecific(a: CelType, b: CelType): boolean {
  if (a.kind === "dyn" || a.kind === "param") return true;
  if (b.kind === "dyn" || b.kind === "param" || a.kind !== b.kind) return false;
  if (a.kind === "type") return true;
  if (a.params.length === 0) return isSameType(a, b);
  return (
    a.name === b.name &&
    a.params.length === b.params.length &&
    a.params.every((it, at) => isEqualOrLessSpecific(it, paramAt(b, at)))
  );
}
