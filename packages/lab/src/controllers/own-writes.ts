import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";

/**
 * Which version of an object was written last, so that no pass acts on an older one: what such a pass counts was counted
 * already. Versions of one resource can be compared by their numbers (KEP-5504).
 */
export class OwnWrites {
  readonly #versions = new Map<ObjectKey, { readonly uid: string; readonly version: bigint }>();

  note(key: ObjectKey, written: KubeObject): void {
    const { uid = "", resourceVersion = "0" } = written.metadata;
    this.#versions.set(key, { uid, version: BigInt(resourceVersion) });
  }

  /** Whether `cached` is what was written last, or newer. */
  isSeen(key: ObjectKey, cached: KubeObject): boolean {
    const written = this.#versions.get(key);
    const { uid = "", resourceVersion = "0" } = cached.metadata;
    if (written === undefined || written.uid !== uid) return true;
    if (BigInt(resourceVersion) < written.version) return false;
    this.#versions.delete(key);
    return true;
  }

  forget(key: ObjectKey): void {
    this.#versions.delete(key);
  }
}
