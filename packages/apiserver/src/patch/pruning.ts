import type { Steps } from "@fairlead/base/turn.ts";
import type { Schema } from "#schema/types.ts";
import { difference, type FieldSet, intersection, isEmpty, union } from "./field-set.ts";
import type { Manager } from "./managers.ts";
import type { Typed } from "./ownership.ts";
import { requireFit } from "./versions.ts";

/**
 * Removes what a manager applied last time, does not apply now, and no other manager owns.
 * Source: structured-merge-diff, merge/update.go, `prune`.
 */
export class Pruning {
  readonly #typed: Typed;
  readonly #managers: ReadonlyMap<string, Manager>;
  readonly #last: Manager | undefined;

  /** @param last - The entry of the manager before this configuration; `managers` hold the one of this configuration. */
  constructor(typed: Typed, managers: ReadonlyMap<string, Manager>, last: Manager | undefined) {
    this.#typed = typed;
    this.#managers = managers;
    this.#last = last;
  }

  /**
   * @param set - The fields of this configuration.
   * @throws {UnfitForVersion}
   */
  *of(merged: unknown, set: FieldSet): Steps<unknown> {
    const last = this.#last;
    if (last === undefined || isEmpty(last.set)) return merged;
    this.#requireFit(merged, last.apiVersion);
    const isSmaller = !isEmpty(difference(last.set, set));
    yield;
    return isSmaller ? yield* this.#without(merged, last) : merged;
  }

  #requireFit(merged: unknown, last: string): void {
    const failed = "failed to prune fields: ";
    requireFit(
      this.#typed,
      merged,
      last,
      `${failed}failed to convert merged object to last applied version: `,
    );
    const others = new Set([...this.#managers.values()].map((it) => it.apiVersion));
    others.delete(last);
    for (const version of others) {
      const what = `failed add back owned items: failed to convert merged object at version ${version}: `;
      requireFit(this.#typed, merged, version, `${failed}${what}`);
    }
  }

  *#without(merged: unknown, { apiVersion, set }: Manager): Steps<unknown> {
    const { sets } = this.#typed;
    const schema = this.#typed.schemaOf(apiVersion);
    const last = sets.withNamedFields(set, schema);
    yield;
    let pruned = sets.remove(merged, last, schema);
    yield;
    // Items come back that others own, in whichever version.
    for (const [by, owned] of this.#owned(schema)) {
      const all = yield* this.#namedFields(merged, by);
      const left = yield* this.#namedFields(pruned, by);
      const kept = union(left, sets.withNamedFields(owned, by));
      yield;
      const unowned = difference(all, kept);
      yield;
      pruned = sets.remove(merged, unowned, by);
      yield;
    }
    const all = yield* this.#namedFields(merged, schema);
    const left = yield* this.#namedFields(pruned, schema);
    const gone = intersection(difference(all, left), last);
    yield;
    return sets.remove(merged, gone, schema);
  }

  /** The fields that managers own, by the schema of their versions; `first` is that of the last configuration. */
  #owned(first: Schema): ReadonlyMap<Schema, FieldSet> {
    const owned = new Map<Schema, FieldSet>([[first, {}]]);
    for (const { apiVersion, set } of this.#managers.values()) {
      const schema = this.#typed.schemaOf(apiVersion);
      owned.set(schema, union(owned.get(schema) ?? {}, set));
    }
    return owned;
  }

  *#namedFields(value: unknown, schema: Schema): Steps<FieldSet> {
    const set = this.#typed.sets.fieldSet(value, schema);
    yield;
    const named = this.#typed.sets.withNamedFields(set, schema);
    yield;
    return named;
  }
}
