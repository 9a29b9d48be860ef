import { isObject } from "./json.ts";

/** Shorter ones the parser of JSON shares itself; longer ones are seldom the same. Unit: characters. */
const LENGTH = { min: 11, max: 512 };

/**
 * Texts deeper in a value are not shared: those that occur in many values are seldom deeper than 12, and an API server accepts values so
 * deep (Kubernetes: 10,000) that recursion exhausts the stack. Unit: levels of lists and objects.
 */
const MAX_DEPTH = 64;

/**
 * Texts that occur in many values, each kept once: a parsed value has its own copy of every text. Bounded: what does not
 * occur among the next texts is forgotten, which costs memory only.
 */
export class TextPool {
  readonly #max: number;
  #recent = new Map<string, string>();
  #former = new Map<string, string>();

  /** @param max - Number of texts that are known at least since they occurred last; twice as many at most. */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#recent.size + this.#former.size;
  }

  /** Has `value`, which must not be shared yet, use the texts of values before it, down to 64 levels. Changes it in place. */
  share<T>(value: T): T {
    return this.#share(value, MAX_DEPTH);
  }

  #share<T>(value: T, levels: number): T {
    if (typeof value === "string") return this.#known(value) as T & string;
    if (levels === 0) return value;
    if (Array.isArray(value)) {
      const list: unknown[] = value;
      for (const [at, item] of list.entries()) list[at] = this.#share(item, levels - 1);
    } else if (isObject(value)) {
      const object: Record<string, unknown> = value;
      for (const key of Object.keys(object)) object[key] = this.#share(object[key], levels - 1);
    }
    return value;
  }

  #known(text: string): string {
    if (text.length < LENGTH.min || text.length > LENGTH.max) return text;
    const recent = this.#recent.get(text);
    if (recent !== undefined) return recent;
    const known = this.#former.get(text) ?? text;
    if (this.#recent.size >= this.#max) {
      this.#former = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(known, known);
    return known;
  }
}
