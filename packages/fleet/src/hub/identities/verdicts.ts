import type { IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";

/** Why slices of members are not shown, or not whole: one condition for each member. */
export class Verdicts {
  readonly #judge: (slice: IdentitySlice) => string | undefined;
  readonly #problems = new Map<ObjectKey, string | undefined>();

  constructor(judge: (slice: IdentitySlice) => string | undefined) {
    this.#judge = judge;
  }

  /** @returns Whether the verdict is another one than before. */
  note(slice: IdentitySlice, problem: string | undefined): boolean {
    const key = keyOf(slice);
    const isNews = this.#problems.has(key) && this.#problems.get(key) !== problem;
    const isBad = !this.#problems.has(key) && problem !== undefined;
    this.#problems.set(key, problem);
    return isNews || isBad;
  }

  /** @returns Whether there was something wrong with it. */
  forget(slice: IdentitySlice): boolean {
    const problem = this.#problems.get(keyOf(slice));
    this.#problems.delete(keyOf(slice));
    return problem !== undefined;
  }

  conditionOf(slices: readonly IdentitySlice[]): NewCondition {
    const problems = slices.flatMap((it) => this.#problemOf(it) ?? []);
    const [first] = problems.toSorted();
    if (first === undefined)
      return {
        type: "Accepted",
        status: "True",
        reason: "Accepted",
        message: "other members see what they need to know of the pods of this one",
      };
    const rest =
      problems.length === 1 ? "" : `; ${problems.length - 1} other slices are not shown whole, too`;
    return { type: "Accepted", status: "False", reason: "IdentitiesRefused", message: `${first}${rest}` };
  }

  #problemOf(slice: IdentitySlice): string | undefined {
    const key = keyOf(slice);
    if (!this.#problems.has(key)) this.#problems.set(key, this.#judge(slice));
    return this.#problems.get(key);
  }
}
