import type { ASTNode } from "@marcbachmann/cel-js";
import type { Schema } from "../types.ts";
import { escapeField } from "./values.ts";

/** Variables in scope and what is known of their types; undefined: nothing. */
export type Scope = ReadonlyMap<string, Schema | undefined>;

export interface Findings {
  /** What is wrong; empty when nothing is. */
  readonly problems: readonly string[];
  readonly variables: ReadonlySet<string>;
}

const MACROS = new Set(["all", "exists", "exists_one", "map", "filter"]);
/** Macros inside each other: the steps of a rule grow with that power of the size of the lists. */
const MAX_NESTED_MACROS = 4;

/**
 * Looks for fields that the schema does not have, and for what would take too long: the library itself knows neither
 * the schema nor a budget.
 */
export function checkExpression(root: unknown, scope: Scope): Findings {
  const checker = new Checker();
  checker.visit(root, scope, 0);
  return { problems: checker.problems, variables: checker.variables };
}

class Checker {
  readonly problems: string[] = [];
  readonly variables = new Set<string>();

  /** Visits a node, and returns what is known of its type. */
  visit(node: unknown, scope: Scope, macros: number): Schema | undefined {
    if (!isNode(node)) return undefined;
    switch (node.op) {
      case "id":
        this.variables.add(node.args);
        return scope.get(node.args);
      case ".":
      case ".?":
        return this.#field(this.visit(node.args[0], scope, macros), node.args[1]);
      case "[]":
      case "[?]":
        this.visit(node.args[1], scope, macros);
        return elementOf(this.visit(node.args[0], scope, macros));
      case "rcall":
        return this.#call(node.args, scope, macros);
      default:
        this.#parts(node.args, scope, macros);
        return undefined;
    }
  }

  #parts(args: unknown, scope: Scope, macros: number): void {
    if (isNode(args)) this.visit(args, scope, macros);
    else if (Array.isArray(args)) for (const it of args) this.#parts(it, scope, macros);
  }

  #call(
    [name, target, args]: readonly [string, unknown, readonly unknown[]],
    scope: Scope,
    macros: number,
  ): undefined {
    const type = this.visit(target, scope, macros);
    const [variable, ...rest] = args;
    if (!MACROS.has(name) || !isNode(variable) || variable.op !== "id" || rest.length === 0) {
      this.#parts(args, scope, macros);
      return;
    }
    if (macros >= MAX_NESTED_MACROS) {
      this.problems.push(
        `macros are nested deeper than ${MAX_NESTED_MACROS}: the rule would exceed its cost budget`,
      );
      return;
    }
    const item = type?.type === "array" ? type.items : undefined;
    this.#parts(rest, new Map([...scope, [variable.args, item]]), macros + 1);
  }

  #field(type: Schema | undefined, name: string): Schema | undefined {
    if (type === undefined) return undefined;
    const { properties = {}, additionalProperties: additional } = type;
    if (typeof additional === "object") return additional;
    if (type.type !== "object" || additional === true) return undefined;
    const found = Object.entries(properties).find(([field]) => escapeField(field) === name);
    if (found === undefined && type["x-kubernetes-preserve-unknown-fields"] !== true) {
      this.problems.push(`undefined field '${name}'`);
    }
    return found?.[1];
  }
}

function isNode(value: unknown): value is ASTNode {
  return typeof value === "object" && value !== null && "op" in value && "args" in value;
}

function elementOf(type: Schema | undefined): Schema | undefined {
  if (type?.items !== undefined) return type.items;
  return typeof type?.additionalProperties === "object" ? type.additionalProperties : undefined;
}
