import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { withoutNested } from "./addresses.ts";
import { setName } from "./names.ts";
import type { PlannedElement } from "./plan.ts";

const ALLOWED = new Set([setName("allowed", "4"), setName("allowed", "6")]);

/**
 * The source ranges of all Services together. Two Services may claim one address and port, and then their ranges may
 * overlap, which nftables refuses: they are settled here, apart from what each Service wants otherwise.
 */
export class SourceRanges {
  readonly #byService = new Map<ObjectKey, readonly PlannedElement[]>();
  #isChanged = false;

  /** Keeps the ranges among `elements`; returns the rest. */
  take(service: ObjectKey, elements: readonly PlannedElement[]): readonly PlannedElement[] {
    const ranges = elements.filter((it) => ALLOWED.has(it.set));
    this.#isChanged ||= ranges.length > 0 || this.#byService.has(service);
    if (ranges.length === 0) this.#byService.delete(service);
    else this.#byService.set(service, ranges);
    return ranges.length === 0 ? elements : elements.filter((it) => !ALLOWED.has(it.set));
  }

  /** All of them if any may have changed since the last call, else undefined. */
  takeChanged(): readonly PlannedElement[] | undefined {
    if (!this.#isChanged) return undefined;
    this.#isChanged = false;
    const byFrontend = Map.groupBy([...this.#byService.values()].flat(), ({ set, key }) => {
      return `${set}|${key.slice(0, key.lastIndexOf(" . "))}`;
    });
    return [...byFrontend].flatMap(([id, elements]) => {
      const [set = "", frontend = ""] = id.split("|");
      const ranges = elements.map(({ key }) => key.slice(key.lastIndexOf(" . ") + 3));
      return withoutNested([...new Set(ranges)]).map((range) => ({
        set,
        key: `${frontend} . ${range}`,
        value: "",
      }));
    });
  }
}
