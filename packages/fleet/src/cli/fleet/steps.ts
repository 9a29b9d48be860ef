import { defined } from "@fairlead/base/defined.ts";
import type { Manifest } from "#authz/manifests.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { abortError } from "@fairlead/base/clock.ts";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { isApplied } from "@fairlead/kube/objects/apply.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** The steps of commands that change clusters. Each step can be undone. */

/** Owns what the commands apply. */
export const CLI_MANAGER = "fairlead-join";

export interface Side {
  /** As people call it: "the hub", "cluster east". */
  readonly who: string;
  readonly client: KubeClient;
  /** The field manager of applied objects. Default: that of the commands. */
  readonly manager?: string;
}

export interface Change {
  readonly cluster: string;
  readonly verb: "create" | "update" | "delete" | "issue" | "none";
  readonly kind: string;
  readonly name: string;
  /** An additional remark. */
  readonly note?: string;
}

export interface Step {
  /** A title for the user, for example "register east with the hub". */
  readonly title: string;
  /** Returns what `run` would change, by reading alone. */
  plan(): Promise<readonly Change[]>;
  /** @returns A remark for the user in addition to "done". */
  run(undo: UndoLog): Promise<string | void>;
}

/** Undoes the steps done so far. */
export class UndoLog {
  readonly #entries: { readonly what: string; readonly back: () => Promise<void> }[] = [];

  /** Called before the change, so that a change whose response is lost is undone too. */
  add(what: string, back: () => Promise<void>): void {
    this.#entries.push({ what, back });
  }

  /** Keeps all changes so far: another client turned out to need them too. */
  keep(): void {
    this.#entries.length = 0;
  }

  /** Undoes the last change first. @returns What could not be undone, and why. */
  async run(): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const { what, back } of this.#entries.toReversed()) {
      try {
        await back();
      } catch (error) {
        problems.push(`${what} (${messageOf(error)})`);
      }
    }
    return problems;
  }
}

export interface Report {
  readonly step: string;
  readonly status: "done" | "failed" | "undone";
  readonly message?: string;
}

/**
 * Runs the steps in order. If one fails, undoes all previous ones, the last first.
 *
 * @throws {FleetError} The failure of a step, with what could not be undone.
 */
export async function runSteps(
  steps: readonly Step[],
  report: (report: Report) => void,
  signal: AbortSignal,
): Promise<void> {
  const undo = new UndoLog();
  for (const step of steps) {
    try {
      if (signal.aborted) throw abortError(signal);
      const wasThere = await isThereAlready(step);
      const message = (await step.run(undo)) ?? (wasThere ? "already there" : undefined);
      report({ step: step.title, status: "done", ...defined({ message }) });
    } catch (error) {
      report({ step: step.title, status: "failed", message: messageOf(error) });
      const left = await undo.run();
      report({ step: "roll back", status: left.length === 0 ? "undone" : "failed" });
      throw left.length === 0 ? error : withRest(error, left);
    }
  }
}

/** Whether a step finds all that it would make. What cannot be looked at is not there yet. */
async function isThereAlready(step: Step): Promise<boolean> {
  const changes = await step.plan().catch(() => []);
  return changes.length > 0 && changes.every((it) => it.verb === "none");
}

function withRest(error: unknown, left: readonly string[]): FleetError {
  const code = Error.isError(error) && error instanceof FleetError ? error.code : "API_UNEXPECTED";
  const message = `${messageOf(error)}. Not rolled back; delete manually: ${left.join("; ")}`;
  return new FleetError(code, message, { cause: error });
}

/** Applies one object, with its way back: gone where it was not, as it was where it was. */
export async function applyWanted(
  side: Side,
  { of, object }: Manifest,
  undo: UndoLog,
  signal: AbortSignal,
): Promise<void> {
  const { client, manager = CLI_MANAGER } = side;
  const key = keyOf(object);
  const before = await client.find(of, key, { signal });
  if (before !== undefined && isThere(before, object, manager)) return;
  undo.add(`${of.kind} ${key} of ${side.who}`, () =>
    before === undefined ? client.delete(of, key) : restore(client, of, before),
  );
  await client.apply(of, object, { fieldManager: manager, signal });
}

/** What `applyWanted` would do. */
export async function planWanted(side: Side, { of, object }: Manifest, signal: AbortSignal): Promise<Change> {
  const key = keyOf(object);
  const before = await side.client.find(of, key, { signal });
  const isSame = before !== undefined && isThere(before, object, side.manager ?? CLI_MANAGER);
  const verb = before === undefined ? "create" : isSame ? "none" : "update";
  return { cluster: side.who, verb, kind: of.kind, name: key };
}

/** Whether an object is as wanted. An object of which only the name is given, such as a namespace, only needs to exist. */
function isThere(before: KubeObject, wanted: KubeObject, fieldManager: string): boolean {
  const { name: _, namespace: __, ...said } = wanted.metadata;
  if (Object.keys(wanted).length === 1 && Object.keys(said).length === 0) return true;
  return isApplied(before, wanted, { fieldManager });
}

/** Restores an object, unless it was deleted. */
export async function restore<T extends KubeObject>(
  client: KubeClient,
  of: Resource<T>,
  before: T,
): Promise<void> {
  const now = await client.find(of, keyOf(before));
  if (now === undefined) return;
  const { managedFields: _, ...metadata } = before.metadata;
  const { resourceVersion } = now.metadata;
  const version = resourceVersion === undefined ? {} : { resourceVersion };
  await client.update(of, { ...before, metadata: { ...metadata, ...version } });
}
