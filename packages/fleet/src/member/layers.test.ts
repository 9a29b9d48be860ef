import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CONFIG_MAPS, type ConfigMap } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { IndexedStore } from "@fairlead/kube/informer/store.ts";
import type { Change, Informer } from "@fairlead/kube/types.ts";
import { Layers } from "./layers.ts";

/** One namespace of a kind, written by the test. */
class Source implements Informer<ConfigMap> {
  readonly of = CONFIG_MAPS;
  readonly store = new IndexedStore<ConfigMap>({ color: (it) => [it.data?.["color"] ?? ""] });
  readonly hasSynced = true;
  readonly watchingSinceMs = undefined;
  readonly version = undefined;
  readonly #subscribers = new Set<(change: Change<ConfigMap>) => void>();
  start(): void {}
  synced(): Promise<void> {
    return Promise.resolve();
  }
  subscribe(onChange: (change: Change<ConfigMap>) => void): Disposable {
    this.#subscribers.add(onChange);
    return { [Symbol.dispose]: () => void this.#subscribers.delete(onChange) };
  }
  write(object: ConfigMap): void {
    this.#publish(this.store.set(object));
  }
  remove(object: ConfigMap): void {
    this.#publish(this.store.delete(keyOf(object)));
  }
  #publish(change: Change<ConfigMap> | undefined): void {
    if (change !== undefined) for (const it of this.#subscribers) it(change);
  }
  async [Symbol.asyncDispose](): Promise<void> {}
}

let version = 0;
function configMap(namespace: string, name: string, color: string, isLeaving = false): ConfigMap {
  version += 1;
  const leaving = isLeaving ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {};
  return {
    metadata: { namespace, name, uid: `${namespace}-${name}`, resourceVersion: String(version), ...leaving },
    data: { color },
  };
}

type Step =
  | {
      readonly act: "write" | "leave" | "remove";
      readonly at: string;
      readonly name: string;
      readonly color: string;
    }
  | { readonly act: "toggle"; readonly at: string };
const NAMESPACES = ["mailbox", "view", "other"] as const;

const steps = fc.array(
  fc.oneof(
    fc.record({
      act: fc.constantFrom("write" as const, "leave" as const, "remove" as const),
      at: fc.constantFrom(...NAMESPACES),
      name: fc.constantFrom("a", "b"),
      color: fc.constantFrom("red", "blue"),
    }),
    fc.record({ act: fc.constant("toggle" as const), at: fc.constantFrom(...NAMESPACES) }),
  ),
  { maxLength: 40 },
);

describe("layers", () => {
  it("show, change by change, what the uppermost layer has, for any order of changes and of adding and removing layers", () => {
    fc.assert(
      fc.property(steps, (list: readonly Step[]) => {
        const sources = new Map(NAMESPACES.map((it) => [it as string, new Source()]));
        /** Uppermost first: a new one goes under the others. */
        let added: string[] = [];
        const layers = new Layers(CONFIG_MAPS);
        const seen = new Map<string, ConfigMap>();
        layers.subscribe(({ key, before, after }) => {
          expect(before).toBe(seen.get(key));
          if (after === undefined) seen.delete(key);
          else seen.set(key, after);
        });
        for (const step of list) {
          const source = sources.get(step.at)!;
          if (step.act === "toggle") {
            if (added.includes(step.at)) layers.remove(source);
            else layers.add(step.at, source);
            added = added.includes(step.at) ? added.filter((it) => it !== step.at) : [...added, step.at];
          } else {
            const made = configMap(step.at, step.name, step.color, step.act === "leave");
            if (step.act === "remove") source.remove(made);
            else source.write(made);
          }
          for (const name of ["a", "b"]) {
            const wanted = added
              .flatMap((it) => sources.get(it)!.store.get(objectKey(it, name)) ?? [])
              .find((it) => it.metadata.deletionTimestamp === undefined);
            expect(layers.get(objectKey(undefined, name))).toBe(wanted);
            expect(seen.get(name)).toBe(wanted);
            for (const color of ["red", "blue"])
              expect([...layers.byIndex("color", color)].filter((it) => it.metadata.name === name)).toEqual(
                wanted?.data?.["color"] === color ? [wanted] : [],
              );
          }
          expect([...layers.list()]).toHaveLength(seen.size);
          expect(layers.size).toBe(seen.size);
        }
      }),
    );
  });

  it("never show as gone what the layer below has too", () => {
    const [mailbox, view] = [new Source(), new Source()];
    const layers = new Layers(CONFIG_MAPS);
    const copy = configMap("mailbox", "a", "red");
    mailbox.write(copy);
    layers.add("mailbox", mailbox);
    const gone: string[] = [];
    layers.subscribe(({ key, after }) => {
      if (after === undefined) gone.push(key);
    });
    view.write(configMap("view", "a", "red"));
    layers.add("view", view);
    mailbox.write({ ...copy, metadata: { ...configMap("mailbox", "a", "red", true).metadata } });
    mailbox.remove(copy);
    expect(gone).toEqual([]);
    mailbox.write(configMap("mailbox", "a", "red"));
    layers.remove(view);
    expect(gone).toEqual([]);
  });
});
