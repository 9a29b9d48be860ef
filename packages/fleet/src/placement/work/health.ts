import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { HealthRule } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { availabilityOf } from "./availability.ts";
import type { Manifest } from "./manifest.ts";
import type { AvailabilityReason } from "./result.ts";

/**
 * Compiles a CEL expression over `object`. Throws if the expression is invalid; what it returns throws if the expression has no
 * value for an object, for example because a field is not set yet.
 */
export type CompileHealth = (expression: string) => (object: KubeObject) => boolean;

export interface Health {
  readonly availability: AvailabilityReason;
  /** Undefined: there is no more to report than the reason. */
  readonly detail?: string;
}

type Judge = ((object: KubeObject) => boolean) | Error;

/** Expressions that are kept compiled. */
const MAX_KEPT = 1000;
/** Unit: characters. */
const MAX_DETAIL = 500;

/** Decides whether objects are available: by the rules of a placement, or by what is known of their kinds. */
export class HealthRules {
  readonly #compile: CompileHealth | undefined;
  readonly #compiled = new Map<string, Judge>();

  constructor(compile: CompileHealth | undefined) {
    this.#compile = compile;
  }

  judge(
    rules: readonly HealthRule[],
    { group, kind }: Pick<Manifest, "group" | "kind">,
    object: KubeObject,
  ): Health {
    const rule = rules.find((it) => it.kind === kind && (it.group ?? "") === group);
    if (rule === undefined) return { availability: availabilityOf({ group, kind }, object) };
    const judge = this.#judgeOf(rule.available);
    if (judge instanceof Error)
      return { availability: "Failed", detail: `the health rule of ${kind} is invalid: ${shown(judge)}` };
    try {
      return judge(object)
        ? { availability: "Available" }
        : { availability: "ManifestNotAvailableYet", detail: `the health rule of ${kind} is false` };
    } catch (error) {
      return {
        availability: "ManifestNotAvailableYet",
        detail: `the health rule of ${kind} has no value: ${shown(error)}`,
      };
    }
  }

  #judgeOf(expression: string): Judge {
    const known = this.#compiled.get(expression);
    if (known !== undefined) return known;
    if (this.#compiled.size >= MAX_KEPT) this.#compiled.clear();
    const judge = this.#read(expression);
    this.#compiled.set(expression, judge);
    return judge;
  }

  #read(expression: string): Judge {
    try {
      return this.#compile?.(expression) ?? new Error("this agent evaluates no health rules");
    } catch (error) {
      return new Error(messageOf(error));
    }
  }
}

function shown(error: unknown): string {
  return messageOf(error).slice(0, MAX_DETAIL);
}
