import { type AttributeReader, type Requirement, type Selector, selects } from "../selector.ts";

/** What selectors see of pods with equal labels, which are one identity. */
export interface Selectable {
  readonly namespace: string;
  /** `pod:app=web`, `ns:team=a`, `cluster=b` and so on: one for each label and name. */
  readonly tokens: readonly string[];
  readonly read: AttributeReader;
}

/**
 * Finds the selectors that select an identity without a look at the others. Each selector is filed under the namespaces that it names and
 * one of its labels; an identity looks into the files of its own namespace and labels.
 */
export class SelectorIndex<T extends { readonly selector: Selector }> {
  readonly #files = new Map<string, Set<T>>();

  add(entry: T): void {
    for (const key of filesOf(entry.selector)) {
      const file = this.#files.get(key);
      if (file === undefined) this.#files.set(key, new Set([entry]));
      else file.add(entry);
    }
  }

  delete(entry: T): void {
    for (const key of filesOf(entry.selector)) {
      const file = this.#files.get(key);
      file?.delete(entry);
      if (file?.size === 0) this.#files.delete(key);
    }
  }

  *matching(of: Selectable): Generator<T, undefined> {
    for (const entry of this.#candidates(of)) if (selects(entry.selector, of.read)) yield entry;
    return undefined;
  }

  *#candidates(of: Selectable): Generator<T, undefined> {
    for (const scope of [`${JSON.stringify(of.namespace)} `, " "])
      for (const token of ["", ...of.tokens]) yield* this.#files.get(scope + token) ?? [];
    return undefined;
  }
}

/** Under how many files one selector is at most, unless one requirement alone has more values. */
const MAX_FILES = 1000;

function filesOf(selector: Selector): readonly string[] {
  const scopes = namespacesOf(selector)?.map((it) => `${JSON.stringify(it)} `) ?? [" "];
  const tokens = bestToken(selector) ?? [""];
  if (scopes.length * tokens.length <= MAX_FILES)
    return scopes.flatMap((scope) => tokens.map((it) => scope + it));
  return scopes.length <= tokens.length ? scopes : tokens.map((it) => ` ${it}`);
}

/** The namespaces outside of which a selector selects nothing; undefined if it does not say. */
export function namespacesOf(selector: Selector): readonly string[] | undefined {
  return selector.requirements.find((it) => it.attribute === "namespace" && it.operator === "In")?.values;
}

/** The tokens of the requirement that few identities meet, by experience: labels of pods before others, few values before many. */
function bestToken(selector: Selector): readonly string[] | undefined {
  const usable = selector.requirements.filter(
    (it) => it.attribute !== "namespace" && (it.operator === "In" || it.operator === "Exists"),
  );
  const [best] = usable.toSorted((a, b) => weight(a) - weight(b));
  if (best === undefined) return undefined;
  return best.operator === "Exists"
    ? [presence(best.attribute)]
    : best.values.map((it) => pair(best.attribute, it));
}

function weight({ attribute, operator, values }: Requirement): number {
  const kind = attribute.startsWith("pod:") ? 0 : attribute === "cluster" ? 2000 : 1000;
  return kind + (operator === "Exists" ? 500 : Math.min(values.length, 499));
}

export function pair(attribute: string, value: string): string {
  return `${attribute}=${value}`;
}

export function presence(attribute: string): string {
  return `${attribute}?`;
}
