import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { byText } from "@fairlead/base/text.ts";
import { noJournal } from "./journal.ts";
import { Store } from "./store.ts";
import { storageKey, type Table } from "./table.ts";

const NAMESPACES = ["a", "a-b", "b"] as const;
const NAMES = ["0", "c", "d", "z"] as const;

const change = fc.record({
  namespace: fc.constantFrom(...NAMESPACES),
  name: fc.constantFrom(...NAMES),
  act: fc.constantFrom("put" as const, "put" as const, "remove" as const),
});
interface Change {
  readonly namespace: string;
  readonly name: string;
  readonly act: "put" | "remove";
}

class World {
  readonly store = new Store({ journal: noJournal, clock: new FakeClock() });
  readonly table: Table = this.store.table("things");
  /** All there was, by revision: "key@revision", in order. */
  readonly states = new Map<number, readonly string[]>();

  async change(changes: readonly Change[]): Promise<void> {
    for (const it of changes) {
      await this.#write(it);
      const all = [...this.table.entries()].toSorted((a, b) => byText(a.key, b.key));
      this.states.set(
        this.store.revision,
        all.map((entry) => `${entry.key}@${entry.revision}`),
      );
    }
  }

  #write({ namespace, name, act }: Change): Promise<unknown> {
    const key = storageKey(namespace, name);
    return this.store.write((tx) => {
      if (act === "remove") tx.remove(this.table, key);
      else tx.put(this.table, key, { apiVersion: "v1", kind: "Thing", metadata: { name, namespace } });
    });
  }
}

describe("the state of a table at a past revision", () => {
  it("is what there was then, from any key on and in each namespace", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 40 }), async (changes) => {
        const world = new World();
        await world.change(changes);
        const keys = NAMESPACES.flatMap((namespace) => NAMES.map((name) => storageKey(namespace, name)));
        for (const [revision, state] of world.states)
          for (const namespace of [undefined, "", ...NAMESPACES]) {
            const there = world.table.stateAt(revision, namespace);
            for (const after of ["", "a/a", "b/zz", ...keys]) {
              const isIn = (it: string): boolean =>
                (it.split("@")[0] ?? "") > after && it.startsWith(namespace ? `${namespace}/` : "");
              const wanted = state.filter(isIn);
              expect(Array.from(there.entries(after), (it) => `${it.key}@${it.revision}`)).toEqual(wanted);
              expect(there.count(after)).toBe(wanted.length);
            }
          }
      }),
      { numRuns: 50 },
    );
  });

  it("costs a page what it has: 80 pages of 500 cost no more than a few lists of all", async () => {
    const [all, page] = [40_000, 500];
    const world = new World();
    const put = (name: string) => world.change([{ namespace: "a", name, act: "put" }]);
    const names = Array.from({ length: all }, (_, at) => String(at).padStart(6, "0"));
    await world.store.write((tx) => {
      for (const name of names)
        tx.put(world.table, storageKey("a", name), { apiVersion: "v1", kind: "Thing", metadata: { name } });
    });
    const revision = world.store.revision;
    await put("000250");
    await put("x");
    const list = (after: string, limit: number): readonly string[] => {
      const found: string[] = [];
      const state = world.table.stateAt(revision);
      for (const it of state.entries(after)) if (found.push(it.key) === limit) break;
      expect(state.count(after)).toBeGreaterThanOrEqual(found.length);
      return found;
    };
    const listMs = cpuMs(() => list("", all));
    const read: string[] = [];
    const pagesMs = cpuMs(() => {
      while (read.length < all) read.push(...list(read.at(-1) ?? "", page));
    });
    expect(read).toEqual(names.map((it) => `a/${it}`));
    expect(pagesMs).toBeLessThan(5 * listMs + 20);
  });
});

/** Of this process. */
function cpuMs(act: () => void): number {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
