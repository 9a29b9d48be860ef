import { union, type FieldSet } from "./field-set.ts";
import type { Manager } from "./managers.ts";
import type { Typed } from "./ownership.ts";
import { problemText } from "./typed-check.ts";
import type { Comparison } from "./typed-compare.ts";

/**
 * Owners of fields in other versions of a custom kind. They own what they set by the schema of their version: what a write
 * changes is worked out for each version. An object that does not fit the schema of one has no such changes.
 */

/** An object that is not one of a version in which a manager owns fields. */
export class UnfitForVersion extends Error {
  override readonly name = "UnfitForVersion";
}

/** @throws {UnfitForVersion} with `what` failed before the reasons, where a manager's version has no place for `object`. */
export function requireFit(typed: Typed, object: unknown, apiVersion: string, what: string): void {
  const problems = typed.isOther(apiVersion) ? typed.problemsIn(object, apiVersion) : [];
  if (problems.length > 0) throw new UnfitForVersion(`${what}${problemText(problems)}`);
}

/** @throws {UnfitForVersion} where the stored object does not fit the version of a manager. */
export function requireStoredFit(typed: Typed, live: unknown, managers: ReadonlyMap<string, Manager>): void {
  for (const version of otherVersions(typed, managers)) requireFit(typed, live, version, "");
}

/** Versions of managers that have a schema of their own. */
export function otherVersions(typed: Typed, managers: ReadonlyMap<string, Manager>): readonly string[] {
  const versions = new Set([...managers.values()].map((it) => it.apiVersion));
  return [...versions].filter((it) => typed.isOther(it));
}

/**
 * Requires that an object fits the version of the write: another version may have written it.
 *
 * @throws {UnfitForVersion} with `what` failed before the reasons.
 */
export function requireOwnFit(typed: Typed, object: unknown, what: string): void {
  const problems = typed.ownProblems(object);
  if (problems.length > 0) throw new UnfitForVersion(`${what}${problemText(problems)}`);
}

/** The change of one write, as managers of one version see it. Worked out once, however many they are. */
export class Change {
  readonly #comparison: Comparison;
  #gained: FieldSet | undefined;
  #lost: FieldSet | undefined;

  constructor(comparison: Comparison) {
    this.#comparison = comparison;
  }

  /** The fields that were added or modified. */
  get gained(): FieldSet {
    return (this.#gained ??= union(this.#comparison.added, this.#comparison.modified));
  }

  /** All fields that changed: none but the writer owns them any more. */
  get lost(): FieldSet {
    return (this.#lost ??= union(this.gained, this.#comparison.removed));
  }
}

/** The changes of one write in all versions. The object before fits those of all managers (`requireStoredFit`). */
export class Changes {
  /** The change in the version of the write. */
  readonly own: Change;
  readonly #others = new Map<string, Change>();
  readonly #typed: Typed;
  readonly #before: unknown;
  readonly #after: unknown;

  constructor(typed: Typed, before: unknown, after: unknown) {
    this.#typed = typed;
    this.#before = before;
    this.#after = after;
    this.own = new Change(typed.compare(before, after));
  }

  /** @throws {UnfitForVersion} */
  in(apiVersion: string): Change {
    if (!this.#typed.isOther(apiVersion)) return this.own;
    let change = this.#others.get(apiVersion);
    if (change === undefined) {
      requireFit(this.#typed, this.#after, apiVersion, "failed to convert new object: ");
      change = new Change(this.#typed.compareIn(apiVersion, this.#before, this.#after));
      this.#others.set(apiVersion, change);
    }
    return change;
  }
}
