import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** The Maps and Sets that the product made and still has: what it keeps, by the line of the source that made them. */
export interface Census extends Disposable {
  /** Entries in all of them together, by line. Collects garbage first. */
  entries(): Promise<ReadonlyMap<string, number>>;
}

const ROOT = fileURLToPath(new URL("../../packages/", import.meta.url));
/** Garbage collections of one call: finalizers and promises free more. */
const COLLECTIONS = 3;

/** Counts from now on, in this process, until it is disposed of. */
export function takeCensus(): Census {
  const { Map: OwnMap, Set: OwnSet } = globalThis;
  let made: { readonly of: WeakRef<{ readonly size: number }>; readonly line: string }[] = [];
  const note = (of: { readonly size: number }): void => {
    const line = madeAt();
    if (line !== undefined) made.push({ of: new WeakRef(of), line });
  };
  class CountedMap<K, V> extends OwnMap<K, V> {
    constructor(...from: ConstructorParameters<typeof OwnMap<K, V>>) {
      super(...from);
      note(this);
    }
    static override [Symbol.hasInstance](it: unknown): boolean {
      return Function.prototype[Symbol.hasInstance].call(OwnMap, it);
    }
  }
  class CountedSet<T> extends OwnSet<T> {
    constructor(...from: ConstructorParameters<typeof OwnSet<T>>) {
      super(...from);
      note(this);
    }
    static override [Symbol.hasInstance](it: unknown): boolean {
      return Function.prototype[Symbol.hasInstance].call(OwnSet, it);
    }
  }
  Object.assign(globalThis, { Map: CountedMap, Set: CountedSet });
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  return {
    async entries() {
      for (let at = 0; at < COLLECTIONS; at += 1) {
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
        collect();
      }
      const sum = new OwnMap<string, number>();
      made = made.filter(({ of }) => of.deref() !== undefined);
      for (const { of, line } of made) sum.set(line, (sum.get(line) ?? 0) + (of.deref()?.size ?? 0));
      return sum;
    },
    [Symbol.dispose]: () => void Object.assign(globalThis, { Map: OwnMap, Set: OwnSet }),
  };
}

/** The first line of the product that called; undefined for others. */
function madeAt(): string | undefined {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 8;
  const { stack = "" } = new Error();
  Error.stackTraceLimit = limit;
  const at = stack.indexOf(ROOT);
  return at === -1
    ? undefined
    : stack
        .slice(at + ROOT.length)
        .split("\n")[0]
        ?.replace(/:\d+\)?$/, "");
}
