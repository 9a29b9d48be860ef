import { isObject } from "@fairlead/base/json.ts";

/** The values of `$name` and `$name.path`. A word without a value is not a placeholder (for example `$patch` of a merge). */
export class Placeholders {
  readonly #values: Map<string, unknown>;

  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = new Map(Object.entries(values));
  }

  set(name: string, value: unknown): void {
    this.#values.set(name, value);
  }

  text(template: string): string {
    return template.replaceAll(/\$([a-zA-Z]\w*)((?:\.\w+)*)/g, (whole, name: string, path: string) => {
      if (!this.#values.has(name)) return whole;
      const value = this.#values.get(name);
      // `$id.example.com` is a word and what follows it.
      if (typeof value === "string") return `${value}${path}`;
      const found = lookUp(value, path, whole);
      return typeof found === "string" ? found : JSON.stringify(found);
    });
  }

  fill(value: unknown): unknown {
    if (typeof value === "string") {
      const alone = /^\$([a-zA-Z]\w*)((?:\.\w+)*)$/.exec(value);
      const of = this.#values.get(alone?.[1] ?? "");
      return isObject(of) ? lookUp(of, alone?.[2] ?? "", value) : this.text(value);
    }
    if (value instanceof Uint8Array) return value;
    if (Array.isArray(value)) return value.map((it) => this.fill(it));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, it]) => [this.text(key), this.fill(it)]));
  }
}

function lookUp(value: unknown, path: string, whole: string): unknown {
  let found = value;
  for (const key of path.split(".").filter((it) => it !== ""))
    found = isObject(found) || Array.isArray(found) ? (found as Record<string, unknown>)[key] : undefined;
  if (found === undefined)
    throw new Error(`${whole} is not in the answer it speaks of: ${JSON.stringify(value)}`);
  return found;
}
