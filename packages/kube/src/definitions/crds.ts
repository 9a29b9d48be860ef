import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
  type JsonSchema,
} from "#api/apiextensions/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { createInformer } from "#informer/informer.ts";
import { isConditionTrue } from "#objects/conditions.ts";
import { applyIfChanged } from "#objects/apply.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Informer, KubeClient } from "#types.ts";

export interface InstallCrdsOptions {
  readonly crds: readonly CustomResourceDefinition[];
  readonly fieldManager: string;
  /** How long the server may take until it serves them. Unit: milliseconds. Default: 30 000. */
  readonly timeoutMs?: number;
}

/**
 * Applies CustomResourceDefinitions and resolves once the server serves them all (condition `Established`). One that is
 * there already as wanted is not written.
 *
 * @throws {FleetError} `TIMED_OUT` naming those that are not served in time.
 */
export async function installCrds(
  client: KubeClient,
  options: InstallCrdsOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const { crds, fieldManager, timeoutMs = 30_000 } = options;
  await using definitions = await Definitions.read(client, { crds, fieldManager }, deps, signal);
  await definitions.apply(crds, signal);
  const late = new AbortController();
  using _timer = deps.clock.after(timeoutMs, () =>
    late.abort(
      new FleetError(
        "TIMED_OUT",
        `the API server does not serve ${definitions.pending(isServed).join(", ")} after ${timeoutMs} ms`,
      ),
    ),
  );
  await definitions.until(isServed, AbortSignal.any([signal, late.signal])).catch((error: unknown) => {
    throw late.signal.aborted && !signal.aborted ? late.signal.reason : error;
  });
}

/**
 * As `installCrds`, but leaves definitions alone that another manager than `fieldManager` made.
 *
 * @returns the names of those.
 */
export async function installMissingCrds(
  client: KubeClient,
  options: InstallCrdsOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { crds, fieldManager } = options;
  const present = await Promise.all(
    crds.map((it) =>
      client.find(CUSTOM_RESOURCE_DEFINITIONS, objectKey(undefined, it.metadata.name), { signal }),
    ),
  );
  const isOther = (it: CustomResourceDefinition | undefined): boolean =>
    it !== undefined && it.metadata.managedFields?.some((entry) => entry.manager === fieldManager) !== true;
  const others = crds.filter((_, index) => isOther(present[index]));
  await installCrds(client, { ...options, crds: crds.filter((it) => !others.includes(it)) }, deps, signal);
  return others.map((it) => it.metadata.name);
}

/**
 * Waits until the server serves all definitions with at least the fields that they have here: for programs without
 * permission to write definitions. With permission, missing ones are installed; otherwise the remedy is logged once, and
 * the wait continues. Newer definitions with more fields stay as they are.
 */
export async function awaitCrds(
  client: KubeClient,
  options: Omit<InstallCrdsOptions, "timeoutMs"> & {
    readonly remedy: string;
    /** The definitions that `listCrds` returned a moment ago. Undefined: they are read one by one. */
    readonly present?: PresentCrds | undefined;
  },
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const { remedy, ...read } = options;
  const { crds } = read;
  await using definitions = await Definitions.read(client, read, deps, signal);
  const missing = definitions.pending(isUsable);
  try {
    await definitions.apply(
      crds.filter((it) => missing.includes(it.metadata.name)),
      signal,
    );
  } catch (error) {
    if (!hasCode(error, "API_FORBIDDEN")) throw error;
    deps.log.warn(`waiting for CRDs that are missing or too old: ${remedy}`, {
      kinds: missing.join(", "),
    });
  }
  await definitions.until(isUsable, signal);
}

/** All definitions of a server, by name. */
export type PresentCrds = ReadonlyMap<string, CustomResourceDefinition>;

/** More than these are those of other programs, of which nothing is needed: Fairlead and KubeFleet together have some 60. */
const MAX_LISTED = 150;

/**
 * Reads all definitions in one request, for programs that need many and may read all. Undefined where they may not, or the server has so
 * many that those of other programs cost more than the requests.
 */
export async function listCrds(client: KubeClient, signal: AbortSignal): Promise<PresentCrds | undefined> {
  try {
    const { items, metadata } = await client.list(CUSTOM_RESOURCE_DEFINITIONS, { limit: MAX_LISTED, signal });
    if ((metadata.continue ?? "") !== "") return undefined;
    return new Map(items.map((it) => [it.metadata.name, it]));
  } catch (error) {
    if (hasCode(error, "API_FORBIDDEN")) return undefined;
    throw error;
  }
}

/** Names of the definitions that the server does not serve, or lacks fields of. */
export async function missingCrds(
  client: KubeClient,
  options: Omit<InstallCrdsOptions, "timeoutMs">,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<readonly string[]> {
  await using definitions = await Definitions.read(client, options, deps, signal);
  return definitions.pending(isUsable);
}

type Judge = (present: CustomResourceDefinition, wanted: CustomResourceDefinition) => boolean;

function isServed(present: CustomResourceDefinition): boolean {
  return isConditionTrue(present.status?.conditions, "Established");
}

function isUsable(present: CustomResourceDefinition, wanted: CustomResourceDefinition): boolean {
  return (
    isServed(present) &&
    wanted.spec.versions.every((version) => {
      const same = present.spec.versions.find((it) => it.name === version.name);
      return same?.served === true && knows(same.schema.openAPIV3Schema, version.schema.openAPIV3Schema);
    })
  );
}

/** Whether a schema has all fields, and all values of enumerations, of another one. */
function knows(present: JsonSchema | undefined, wanted: JsonSchema | undefined): boolean {
  if (wanted === undefined) return true;
  if (present === undefined) return false;
  const { properties = {}, enum: values } = present;
  return (
    (values === undefined || (wanted.enum ?? []).every((it) => values.includes(it))) &&
    Object.entries(wanted.properties ?? {}).every(([name, schema]) => knows(properties[name], schema)) &&
    (wanted.items === undefined || knows(present.items, wanted.items))
  );
}

/** How many definitions are read or written at once: more connections cost more than they save. */
const AT_ONCE = 4;

/**
 * Definitions as the server has them, unless it is given them each read by its name: readable for those who may read no others. Those
 * that cannot be read are watched, and while it waits, those that it waits for.
 */
class Definitions implements AsyncDisposable {
  readonly #client: KubeClient;
  readonly #wanted: readonly CustomResourceDefinition[];
  readonly #fieldManager: string;
  readonly #deps: RuntimeDeps;
  /** By name, as read or written last. */
  readonly #known = new Map<string, CustomResourceDefinition>();
  /** By name. What they have seen is newer than what is known. */
  readonly #informers = new Map<string, Informer<CustomResourceDefinition>>();
  /** Name → generation that was written here: a status of an older generation is ignored. */
  readonly #written = new Map<string, number>();

  private constructor(
    client: KubeClient,
    { crds, fieldManager }: { crds: readonly CustomResourceDefinition[]; fieldManager: string },
    deps: RuntimeDeps,
  ) {
    this.#client = client;
    this.#wanted = crds;
    this.#fieldManager = fieldManager;
    this.#deps = deps;
  }

  static async read(
    client: KubeClient,
    options: {
      readonly crds: readonly CustomResourceDefinition[];
      readonly fieldManager: string;
      readonly present?: PresentCrds | undefined;
    },
    deps: RuntimeDeps,
    signal: AbortSignal,
  ): Promise<Definitions> {
    const { crds, present } = options;
    await using stack = new AsyncDisposableStack();
    const definitions = stack.use(new Definitions(client, options, deps));
    if (present === undefined)
      await inParallel(crds, AT_ONCE, ({ metadata: { name } }) => definitions.#read(name, signal));
    else for (const it of crds) definitions.#take(present.get(it.metadata.name));
    await Promise.all([...definitions.#informers.values()].map((it) => it.synced(signal)));
    stack.move();
    return definitions;
  }

  #take(present: CustomResourceDefinition | undefined): void {
    if (present !== undefined) this.#known.set(present.metadata.name, present);
  }

  async #read(name: string, signal: AbortSignal): Promise<void> {
    try {
      const { items } = await this.#client.list(CUSTOM_RESOURCE_DEFINITIONS, { ...onlyNamed(name), signal });
      for (const it of items) this.#take(it);
    } catch {
      signal.throwIfAborted();
      // It tries again until it may read, and says why it cannot.
      this.#watch(name, signal);
    }
  }

  #watch(name: string, signal: AbortSignal): Informer<CustomResourceDefinition> {
    const options = { fieldManager: this.#fieldManager, ...onlyNamed(name) };
    const informer = createInformer(this.#client, CUSTOM_RESOURCE_DEFINITIONS, options, this.#deps);
    this.#informers.set(name, informer);
    informer.start(signal);
    return informer;
  }

  #present(name: string): CustomResourceDefinition | undefined {
    const informer = this.#informers.get(name);
    const seen = informer?.store.get(objectKey(undefined, name));
    // A first state is shown object by object, and counts as synced after the last.
    return informer?.hasSynced === true ? seen : (seen ?? this.#known.get(name));
  }

  /** Names of those that are not there, or of which `judge` says no. */
  pending(judge: Judge): string[] {
    return this.#wanted
      .filter((wanted) => {
        const present = this.#present(wanted.metadata.name);
        return present === undefined || !this.#isCurrent(present) || !judge(present, wanted);
      })
      .map((it) => it.metadata.name);
  }

  #isCurrent({ metadata: { name, generation = 0 } }: CustomResourceDefinition): boolean {
    return generation >= (this.#written.get(name) ?? 0);
  }

  /** Rejects with the first error, without writing others. */
  async apply(desired: readonly CustomResourceDefinition[], signal: AbortSignal): Promise<void> {
    await inParallel(desired, AT_ONCE, (it) => this.#apply(it, signal));
  }

  async #apply(desired: CustomResourceDefinition, signal: AbortSignal): Promise<void> {
    const { name } = desired.metadata;
    const current = this.#present(name);
    const fieldManager = this.#fieldManager;
    const written = await applyIfChanged(this.#client, CUSTOM_RESOURCE_DEFINITIONS, {
      current,
      desired,
      fieldManager,
      signal,
    });
    this.#written.set(name, written.metadata.generation ?? 0);
    // The response to a change has the status from before it: a watch shows when the server knows of the change itself.
    if (current === undefined) this.#known.set(name, written);
  }

  async until(judge: Judge, signal: AbortSignal): Promise<void> {
    const done = Promise.withResolvers<void>();
    const look = (): void => {
      if (this.pending(judge).length === 0) done.resolve();
    };
    using stack = new DisposableStack();
    for (const name of this.pending(judge)) {
      const informer = this.#informers.get(name) ?? this.#watch(name, signal);
      stack.use(informer.subscribe(look));
    }
    look();
    await abortable(done.promise, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#informers.values()].map((it) => it[Symbol.asyncDispose]()));
  }
}

function onlyNamed(name: string): { readonly fieldSelector: string } {
  return { fieldSelector: `metadata.name=${name}` };
}
