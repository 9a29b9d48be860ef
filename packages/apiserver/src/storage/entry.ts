import { parseExact } from "@fairlead/base/exact-json.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { ApiObject } from "#values/object.ts";
import type { Cooling, Warm } from "./warm.ts";

type Labels = NonNullable<ApiObject["metadata"]["labels"]>;
const NO_LABELS: Labels = {};

/** One object at one revision, in its stored form. Never changed once made, so that readers may keep it. */
export class Entry implements Cooling {
  readonly key: string;
  readonly revision: number;
  #object: ApiObject | undefined;
  #json: Buffer | undefined;
  /** When the object is no longer kept: selectors ask every object for them. */
  #labels: Labels | undefined;
  #servedAsIsIn: object | undefined;
  readonly #warm: Warm | undefined;
  #renditions: WeakMap<object, Buffer> | undefined;

  private constructor(
    { key, revision }: Pick<Entry, "key" | "revision">,
    { object, json }: { readonly object?: ApiObject; readonly json?: Buffer },
    warm: Warm | undefined,
  ) {
    this.key = key;
    this.revision = revision;
    this.#object = object;
    this.#json = json;
    this.#warm = warm;
  }

  /** @param warm - Decides how long the object stays parsed. Default: always. */
  static of(key: string, revision: number, object: ApiObject, warm?: Warm): Entry {
    return new Entry({ key, revision }, { object }, warm);
  }

  /** Parsed when it is first asked for: most events of a restored log never are. */
  static parsed(key: string, revision: number, json: Buffer, warm?: Warm): Entry {
    return new Entry({ key, revision }, { json }, warm);
  }

  /** Not to be kept by those who keep the entry: another one that is the same takes its place when it is asked for later. */
  get object(): ApiObject {
    if (this.#object === undefined) {
      this.#object = this.#parse();
      this.#warm?.keep(this);
    }
    return this.#object;
  }

  get size(): number {
    return this.json.length;
  }

  /** Keeps the bytes and the labels. */
  cool(): void {
    if (this.#object === undefined) return;
    const { json } = this;
    this.#labels = this.labels;
    this.#object = undefined;
    // Small buffers share their memory, which one of them that stays would hold for all.
    if (json.buffer.byteLength === json.length) return;
    this.#json = Buffer.allocUnsafeSlow(json.length);
    json.copy(this.#json);
  }

  get labels(): Labels {
    return (
      (this.#object === undefined ? this.#labels : undefined) ?? this.object.metadata.labels ?? NO_LABELS
    );
  }

  /** Whether `json` is known to be what readers get in `form`, which is compared by identity. */
  isServedAsIsIn(form: object): boolean {
    return this.#servedAsIsIn === form;
  }
  serveAsIsIn(form: object): void {
    this.#servedAsIsIn = form;
  }

  #parse(): ApiObject {
    try {
      return parseExact((this.#json ?? Buffer.alloc(0)).toString("utf8")) as ApiObject;
    } catch (cause) {
      const message = `the stored object ${this.key} at revision ${this.revision} is not JSON: the journal is damaged`;
      throw new FleetError("JOURNAL_DAMAGED", message, { cause });
    }
  }

  /** Serialised once, for the journal and for every reader. */
  get json(): Buffer {
    this.#json ??= Buffer.from(JSON.stringify(this.#object), "utf8");
    return this.#json;
  }

  /** Bytes in another form than the stored one, made once per form. `form` is compared by identity. */
  rendition(form: object, render: () => Buffer): Buffer {
    this.#renditions ??= new WeakMap();
    let bytes = this.#renditions.get(form);
    if (bytes === undefined) {
      bytes = render();
      this.#renditions.set(form, bytes);
    }
    return bytes;
  }

  /** The same state under another revision: sent to watchers when the object is deleted. */
  at(revision: number): Entry {
    const { object } = this;
    const metadata = { ...object.metadata, resourceVersion: String(revision) };
    return Entry.of(this.key, revision, { ...object, metadata }, this.#warm);
  }
}
