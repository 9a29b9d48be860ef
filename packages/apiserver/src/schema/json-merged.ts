import { parseExact } from "@fairlead/base/exact-json.ts";
import { isObject, own } from "@fairlead/base/json.ts";
import { endOfString } from "./json.ts";

/**
 * The value of well-formed JSON text with duplicate keys, as Go decodes it into a type: a repeated object is merged into the
 * earlier one; any other repeated value replaces it.
 */
export function parseMerged(text: string): unknown {
  return new Reader(text).value(undefined);
}

const SPACE = /[\s,:]*/y;
const ATOM = /[^\s,\]}]*/y;

/** Reads each character once: what comes again is read into what is there. */
class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(before: unknown): unknown {
    switch (this.#next()) {
      case "{":
        return this.#object(isObject(before) ? before : {});
      case "[":
        return this.#list();
      case '"':
        return this.#string();
      default:
        return parseExact(this.#take(ATOM));
    }
  }

  #object(into: Record<string, unknown>): Record<string, unknown> {
    this.#at += 1;
    while (this.#next() !== "}") {
      const key = this.#string();
      into[key] = this.value(own(into, key));
    }
    this.#at += 1;
    return into;
  }

  #list(): unknown[] {
    const read: unknown[] = [];
    this.#at += 1;
    while (this.#next() !== "]") read.push(this.value(undefined));
    this.#at += 1;
    return read;
  }

  #string(): string {
    const start = this.#at;
    this.#at = endOfString(this.#text, start) + 1;
    return JSON.parse(this.#text.slice(start, this.#at)) as string;
  }

  /** The first token after spaces, commas and colons. */
  #next(): string {
    this.#take(SPACE);
    return this.#text.charAt(this.#at);
  }

  #take(token: RegExp): string {
    token.lastIndex = this.#at;
    const found = token.exec(this.#text)?.[0] ?? "";
    this.#at += found.length;
    return found;
  }
}
