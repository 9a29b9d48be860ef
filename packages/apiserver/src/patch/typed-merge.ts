import { cloneJson, isObject, own } from "@fairlead/base/json.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import {
  elementOfItem,
  fieldSchema,
  shapeOf,
  type ListShape,
  type MapShape,
  type SetShape,
} from "./shapes.ts";

/**
 * Lays an applied configuration over the live object: the configuration wins in every leaf it has, all else stays.
 * Nothing of the arguments is shared with the result's changed parts. Source: structured-merge-diff, typed/merge.go.
 */
export function mergeTyped(live: unknown, config: unknown, schema: Schema, resolve: SchemaResolver): unknown {
  return new TypedMerger(resolve).values(live, config, schema);
}

class TypedMerger {
  readonly #resolve: SchemaResolver;

  constructor(resolve: SchemaResolver) {
    this.#resolve = resolve;
  }

  values(live: unknown, config: unknown, schema: Schema | undefined): unknown {
    if (config === undefined) return live;
    if (live === undefined || schema === undefined) return cloneJson(config);
    const shape = shapeOf(schema, config, this.#resolve);
    return shape.kind === "leaf" ? cloneJson(config) : this.#below(live, config, shape);
  }

  /** A null in place of a map or a list says nothing about what is in it. */
  #below(live: unknown, config: unknown, shape: MapShape | SetShape | ListShape): unknown {
    if (shape.kind === "map" && isObject(live)) {
      if (config === null) return live;
      if (isObject(config)) return this.#maps(live, config, shape);
    } else if (shape.kind !== "map" && Array.isArray(live)) {
      if (config === null) return live;
      if (Array.isArray(config)) return this.#lists(live, config, shape);
    }
    return cloneJson(config);
  }

  #maps(live: Record<string, unknown>, config: Record<string, unknown>, shape: MapShape): unknown {
    const merged = { ...live };
    for (const name of Object.keys(config)) {
      merged[name] = this.values(own(live, name), config[name], fieldSchema(shape, name));
    }
    return merged;
  }

  /** Items of the configuration keep their order; those only live keep their place relative to the items around them. */
  #lists(live: readonly unknown[], config: readonly unknown[], shape: SetShape | ListShape): unknown[] {
    const old = this.#elements(live, shape);
    const wanted = this.#elements(config, shape);
    const oldItems = new Map(old.map((element, at) => [element, live[at]]));
    const duplicated = repeated(old);
    const wantedItems = new Map(wanted.map((element, at) => [element, config[at]]));
    const take = (element: string): unknown => {
      const item = wantedItems.get(element);
      // Of duplicates it is unknown which one the configuration means: all of them make room for it.
      const before = duplicated.has(element) ? undefined : oldItems.get(element);
      return shape.kind === "set" ? item : this.values(before, item, shape.item);
    };
    return interleave(old, wanted).map((it) => (it.from === "live" ? live[it.at] : take(it.element)));
  }

  #elements(list: readonly unknown[], shape: SetShape | ListShape): string[] {
    return list.map((item) => elementOfItem(shape, item, this.#resolve));
  }
}

function repeated(elements: readonly string[]): Set<string> {
  const seen = new Set<string>();
  return new Set(elements.filter((element) => seen.has(element) || !seen.add(element)));
}

type Step =
  | { readonly from: "live"; readonly at: number }
  | { readonly from: "config"; readonly element: string };

/** The order of the merged list, as upstream walks both lists at once. */
function interleave(old: readonly string[], wanted: readonly string[]): Step[] {
  const isOld = new Set(old);
  const isWanted = new Set(wanted);
  const shared = wanted.filter((element) => isOld.has(element));
  const merged = new Set<string>();
  const steps: Step[] = [];
  let nextShared = 0;
  let [o, w] = [0, 0];
  const takeWanted = (element: string): void => {
    merged.add(element);
    steps.push({ from: "config", element });
    if (shared[nextShared] === element) nextShared++;
    w++;
  };
  while (o < old.length || w < wanted.length) {
    const [live, next] = [old[o], wanted[w]];
    if (live !== undefined && live === next) {
      takeWanted(live);
      o++;
    } else if (live !== undefined && !isWanted.has(live)) {
      steps.push({ from: "live", at: o });
      o++;
    } else if (live !== undefined && (merged.has(live) || isOutOfTurn(live, next, shared[nextShared]))) o++;
    else if (next !== undefined) takeWanted(next);
  }
  return steps;
}

/** A live item that the configuration has too, but further on: it is taken where the configuration has it. */
function isOutOfTurn(live: string, next: string | undefined, nextShared: string | undefined): boolean {
  return next !== undefined && nextShared !== undefined && nextShared !== live;
}
