import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Work, WorkIdentifier } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { type Manifests, readManifests } from "#placement/work/manifest.ts";
import type { Outcome } from "./process.ts";

/** What came of a manifest, and under which circumstances: under the same ones it is not looked at again. */
export interface Remembered {
  /** Of the manifest, the strategy and the owner. */
  readonly inputs: string;
  readonly outcome: Outcome;
}

/** What is kept of a Work between passes. All of it can be lost: the next pass reads the objects again. */
export interface WorkMemory {
  /** Of the Work that `manifests` are those of. */
  generation: string;
  manifests: Manifests;
  /** By id of the object. */
  readonly outcomes: Map<string, Remembered>;
  /** What AppliedWork lists, as written last. */
  recorded:
    | { readonly owner: string; readonly resources: readonly (WorkIdentifier & { uid?: string })[] }
    | undefined;
  /** The status as written last, and the versions of the Work that are older than that. */
  written: { readonly after: readonly (string | undefined)[]; readonly status: Work["status"] } | undefined;
  /** Passes with the same result in a row, and when the next one is due without a change. Unit: milliseconds, monotonic. */
  attempts: number;
  lastResult: string;
  dueMs: number;
  /** Made due since the last pass began, which may not have seen why. */
  isWanted: boolean;
  /** Whether something failed, for which a namespace may have to come: they are watched until nothing fails. */
  hasFailed: boolean;
}

export class WorkMemories {
  readonly #byKey = new Map<ObjectKey, WorkMemory>();

  of(key: ObjectKey, work: Work): WorkMemory {
    const { uid = "", generation = 0 } = work.metadata;
    const version = `${uid} ${generation}`;
    const known = this.#byKey.get(key);
    if (known?.generation === version) return known;
    const manifests = readManifests(work.spec.workload?.manifests ?? [], work.spec.namespace);
    const memory: WorkMemory =
      known === undefined
        ? {
            generation: version,
            manifests,
            outcomes: new Map(),
            recorded: undefined,
            written: undefined,
            attempts: 0,
            lastResult: "",
            dueMs: 0,
            isWanted: false,
            hasFailed: false,
          }
        : Object.assign(known, { generation: version, manifests, attempts: 0, dueMs: 0 });
    this.#byKey.set(key, memory);
    return memory;
  }

  forget(key: ObjectKey): void {
    this.#byKey.delete(key);
  }

  /** Makes all manifests due that failed, because what they lack may be there now. */
  makeDue(key: ObjectKey): void {
    const memory = this.#byKey.get(key);
    if (memory !== undefined) Object.assign(memory, { dueMs: 0, isWanted: true });
  }
}

/** The status of a Work as far as it is known: the watch may not have brought yet what was written. */
export function knownStatus(work: Work, { written }: Pick<WorkMemory, "written">): Work["status"] {
  // Not by comparison: a hub that was restored from a backup counts versions from there.
  return written?.after.includes(work.metadata.resourceVersion) === true ? written.status : work.status;
}
