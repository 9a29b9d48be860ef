import { parseExact } from "@fairlead/base/exact-json.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { ApiObject } from "#values/object.ts";

/** One object at one revision, in its stored form. Never changed once made, so that readers may keep it. */
export class Entry {
  readonly key: string;
  readonly revision: number;
  #object: ApiObject | undefined;
  #json: Buffer | undefined;
  #renditions: WeakMap<object, Buffer> | undefined;

  private constructor(
    key: string,
    revision: number,
    object: ApiObject | undefined,
    json: Buffer | undefined,
  ) {
    this.key = key;
    this.revision = revision;
    this.#object = object;
    this.#json = json;
  }

  static of(key: string, revision: number, object: ApiObject): Entry {
    return new Entry(key, revision, object, undefined);
  }

  /** Parsed when it is first asked for: most events of a restored log never are. */
  static parsed(key: string, revision: number, json: Buffer): Entry {
    return new Entry(key, revision, undefined, json);
  }

  get object(): ApiObject {
    this.#object ??= this.#parse();
    return this.#object;
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
    return Entry.of(this.key, revision, { ...object, metadata });
  }
}
