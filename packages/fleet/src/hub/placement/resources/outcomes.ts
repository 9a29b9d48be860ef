import { sameJson } from "@fairlead/base/json.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Placement, ResourceIdentifier } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** What the selectors of a placement gave, for its status. */
export interface Outcome {
  readonly uid: string | undefined;
  readonly generation: number | undefined;
  /** Why nothing can be selected: for the user to correct. */
  readonly problem?: string;
  readonly resources: readonly ResourceIdentifier[];
}

export class Outcomes {
  readonly #outcomes = new Map<ObjectKey, Outcome>();
  onChange: (key: ObjectKey) => void = () => {};

  /** Undefined until the selectors of this state of the placement were evaluated. */
  get(key: ObjectKey, { metadata: { uid, generation } }: Placement): Outcome | undefined {
    const outcome = this.#outcomes.get(key);
    return outcome?.uid === uid && outcome?.generation === generation ? outcome : undefined;
  }
  set(key: ObjectKey, outcome: Outcome): void {
    if (sameJson(this.#outcomes.get(key), outcome)) return;
    this.#outcomes.set(key, outcome);
    this.onChange(key);
  }
  delete(key: ObjectKey): void {
    this.#outcomes.delete(key);
  }
}

export function outcomeOf(
  { metadata: { uid, generation } }: Placement,
  resources: readonly ResourceIdentifier[],
  problem?: string,
): Outcome {
  return { uid, generation, resources, ...(problem === undefined ? {} : { problem }) };
}
