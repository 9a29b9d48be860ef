/** Unit: characters, of all paths. */
const MAX_LENGTH = 64 * 1024;
/** Longer than any key that a type, a label or an annotation has. Unit: characters. */
const MAX_STEP = 512;

/** Paths of invalid fields: a bounded number that a person can read, however many a body has. */
export class FoundPaths {
  readonly #found = new Set<string>();
  #length = 0;

  get all(): readonly string[] {
    return [...this.#found];
  }

  /** Makes the text only where there is room for it. */
  add(path: () => string): void {
    if (this.#length > MAX_LENGTH) return;
    const text = path();
    // Each costs as much as it is long, also one that was found before.
    this.#length += 1 + text.length;
    this.#found.add(text);
  }
}

/** "spec" and "ports" → "spec.ports". Of keys that are longer than any real one, the beginning. */
export function fieldPath(above: string, key: string): string {
  const step = key.length > MAX_STEP ? `${key.slice(0, MAX_STEP)}...` : key;
  return above === "" ? step : `${above}.${step}`;
}
