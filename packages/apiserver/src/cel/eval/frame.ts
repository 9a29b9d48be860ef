import { type CelValue, CostExceeded } from "../value.ts";
import type { CelError } from "../value.ts";

/** The state of one evaluation. */
export class Frame {
  readonly variables: Variables;
  /** Of folds, by depth. An error is what a fold came to so far. */
  readonly slots: (CelValue | CelError)[] = [];
  readonly #limit: number;
  cost = 0;

  constructor(variables: Variables, limit: number) {
    this.variables = variables;
    this.#limit = limit;
  }

  /** @throws {CostExceeded} */
  charge(cost: number): void {
    this.cost += cost;
    if (this.cost > this.#limit) throw new CostExceeded("operation cancelled: actual cost limit exceeded");
  }
}

/** Undefined: a variable that has no value. One that is worked out when it is first read is a getter. */
export interface Variables {
  get(name: string): CelValue | undefined;
}

export type Evaluate = (frame: Frame) => CelValue;
