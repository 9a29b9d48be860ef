/** The limit of all warnings of a response. Unit: characters. */
const MAX_LENGTH = 4096;
/** The limit of each warning if they do not all fit. Unit: characters. */
const MAX_EACH = 256;

/** Warnings of one answer, each once, as many as clients take in headers. Source: k8s.io/apiserver, pkg/endpoints/filters/warning.go. */
export class Warnings {
  readonly #texts = new Set<string>();
  /** Of all texts, and of what would be left of them if each were cut. */
  #length = 0;
  #cutLength = 0;

  add(text: string): void {
    if (this.#cutLength >= MAX_LENGTH || this.#texts.has(text)) return;
    this.#texts.add(text);
    this.#length += text.length;
    this.#cutLength += Math.min(text.length, MAX_EACH);
  }

  shown(): readonly string[] {
    if (this.#length <= MAX_LENGTH) return [...this.#texts];
    let left = MAX_LENGTH;
    const cut = (text: string): string => {
      const kept = text.slice(0, Math.min(left, MAX_EACH));
      left -= kept.length;
      return kept;
    };
    return [...this.#texts].map(cut).filter((it) => it !== "");
  }
}
