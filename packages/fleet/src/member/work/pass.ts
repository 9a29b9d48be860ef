import { type Clock, delay } from "@fairlead/base/clock.ts";
import { jsonKey } from "@fairlead/base/json.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { isPermitted } from "@fairlead/kube/client/access-review.ts";
import { byText } from "@fairlead/base/text.ts";
import type { ReconcileResult } from "@fairlead/kube/types.ts";
import { type Processed, workStatus } from "#placement/work/conditions.ts";
import { GUARD, guardedSetting } from "#placement/work/guarded.ts";
import { identifierOf, idOf, type Manifest, nameOf } from "#placement/work/manifest.ts";
import { isApplied, isDiffReported, type Result, type ResultReason } from "#placement/work/result.ts";
import { retryDelayMs } from "#placement/work/retry.ts";
import { inWaves } from "#placement/work/waves.ts";
import { record, type Recorded, recordedOf, release } from "./applied-work.ts";
import { knownStatus, type Remembered, type WorkMemory } from "./memory.ts";
import { keyOfTarget, type Target, type WorkPass } from "./parts.ts";
import { type Outcome, processTarget } from "./process.ts";
import { prioritiesOf } from "./sharing.ts";
import { said } from "./said.ts";
import { WorkMetrics } from "./metrics.ts";
import { writeStatus } from "./status.ts";

/** Manifests of one Work that are worked on at a time. */
const PARALLEL = 8;
/** A pass that takes longer reports what it has so far, each time that it has taken so much longer. Unit: milliseconds. */
const PROGRESS_MS = 5000;

/** Applies the manifests of a Work, or compares them, and reports to the hub. */
export async function passOver(pass: WorkPass, memory: WorkMemory): Promise<ReconcileResult> {
  const run = new Run(pass, memory);
  const ended = new AbortController();
  const progress = reportProgress(run, pass.session.deps.clock, ended.signal);
  try {
    await run.process();
  } finally {
    ended.abort();
    await progress;
  }
  await run.report(true);
  return run.next();
}

async function reportProgress(run: Run, clock: Clock, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await delay(clock, PROGRESS_MS, ended).catch(() => {});
    if (!ended.aborted) await run.report(false).catch(() => {});
  }
}

class Run {
  readonly #pass: WorkPass;
  readonly #memory: WorkMemory;
  readonly #isReportDiff: boolean;
  /** A text that differs if anything does that the outcomes of all manifests depend on. */
  readonly #inputs: string;
  /** By ordinal. */
  readonly #processed = new Map<number, Processed>();
  readonly #targets = new Map<string, Target>();
  /** Kinds that this cluster does not serve. */
  readonly #missing = new Set<string>();
  /** What could not be removed. */
  #remaining: readonly string[] = [];
  #mayAdminister: Promise<boolean> | undefined;
  /** What failed is tried again now, although nothing is known to have changed. */
  #isDue: boolean;

  constructor(pass: WorkPass, memory: WorkMemory) {
    this.#pass = pass;
    this.#memory = memory;
    this.#isReportDiff = pass.strategy.type === "ReportDiff";
    const { applyStrategy, reportBackStrategy } = pass.work.spec;
    this.#inputs = jsonKey([applyStrategy, reportBackStrategy, pass.owner.metadata.uid]);
    this.#isDue = this.#nowMs() >= memory.dueMs;
    memory.isWanted = false;
  }

  async process(): Promise<void> {
    const { manifests, refused } = this.#memory.manifests;
    for (const { identifier, reason, message } of refused)
      this.#processed.set(identifier.ordinal, { identifier, result: failure(reason, message) });
    const left = this.#leftOver();
    const waves = this.#isReportDiff ? [manifests] : inWaves(manifests);
    for (const it of manifests) await this.#targetOf(it).catch(() => undefined);
    // Watched from before they are written, so that no change is missed.
    this.#use();
    await this.#record(left);
    for (const wave of waves) {
      // A CustomResourceDefinition of an earlier wave may be served by now.
      this.#missing.clear();
      await inParallel(wave, (it) => this.#processManifest(it));
    }
    this.#memory.hasFailed = [...this.#processed.values()].some(
      ({ result }) => !isApplied(result) && !isDiffReported(result),
    );
    this.#use();
    const ids = new Set(manifests.map((it) => it.id));
    for (const id of this.#memory.outcomes.keys()) if (!ids.has(id)) this.#memory.outcomes.delete(id);
    if (this.#isReportDiff) return;
    const remaining = new Map<Recorded, string>();
    await inParallel(left, async (it) => {
      const problem = await this.#release(it);
      if (problem !== undefined) remaining.set(it, problem);
    });
    this.#remaining = [...remaining.values()].toSorted(byText);
    await this.#record([...remaining.keys()]);
  }

  #use(): void {
    const { kinds, work } = this.#pass;
    const resources = [...this.#targets.values()].map((it) => it.of);
    // What failed may have to wait for these. A new watch shows all of them as new, which makes the Work due.
    const definitions = this.#missing.size > 0 ? [CUSTOM_RESOURCE_DEFINITIONS] : [];
    const namespaces = this.#memory.hasFailed ? [NAMESPACES] : [];
    kinds.use(keyOf(work), [...resources, ...definitions, ...namespaces]);
  }

  async #targetOf(manifest: Manifest): Promise<Target | undefined> {
    const known = this.#targets.get(manifest.id);
    if (known !== undefined) return known;
    const kind = `${manifest.group}/${manifest.version}/${manifest.kind}`;
    if (this.#missing.has(kind)) return undefined;
    const { kinds, signal } = this.#pass;
    const of = await kinds.find(manifest, signal);
    if (of === undefined) {
      this.#missing.add(kind);
      return undefined;
    }
    const target = { manifest, of };
    this.#targets.set(manifest.id, target);
    return target;
  }

  async #processManifest(manifest: Manifest): Promise<void> {
    const result = await this.#resultOf(manifest);
    const identifier = identifierOf(manifest, this.#targets.get(manifest.id)?.of.plural);
    this.#processed.set(manifest.ordinal, { identifier, result });
  }

  async #resultOf(manifest: Manifest): Promise<Result> {
    let target: Target | undefined;
    try {
      target = await this.#targetOf(manifest);
    } catch (error) {
      return failure(
        "DecodingErred",
        `cannot find out what ${manifest.kind} is in this cluster: ${said(error)}`,
      );
    }
    if (target === undefined) {
      const { group, version, kind } = manifest;
      const apiVersion = group === "" ? version : `${group}/${version}`;
      this.#memory.outcomes.delete(manifest.id);
      return failure(
        "DecodingErred",
        `this cluster serves no kind ${kind} of ${apiVersion}: install its CustomResourceDefinition`,
      );
    }
    const isNamespaced = manifest.namespace !== undefined;
    if (target.of.namespaced !== isNamespaced) {
      const found = isNamespaced
        ? "is cluster-scoped: remove metadata.namespace"
        : "is namespaced: set metadata.namespace";
      return failure("DecodingErred", `${nameOf(manifest)} ${found}`);
    }
    return this.#resultOfTarget(target);
  }

  async #resultOfTarget(target: Target): Promise<Result> {
    const { kinds } = this.#pass;
    const { manifest, of } = target;
    const inputs = [manifest.hash, this.#inputs, ...prioritiesOf(this.#pass, manifest.id).flat()].join(" ");
    const known = this.#memory.outcomes.get(manifest.id);
    const version = kinds.versionOf(of, keyOfTarget(target));
    if (known !== undefined && known.inputs === inputs && this.#isUnchanged(known, version))
      return known.outcome.result;
    const history = known?.inputs === inputs ? known.outcome : {};
    const outcome = (await this.#refusalOf(manifest)) ?? (await processTarget(this.#pass, target, history));
    this.#memory.outcomes.set(manifest.id, { inputs, outcome: { ...outcome, object: bare(outcome.object) } });
    // What later waves lack may be there now.
    if (known?.outcome.object === undefined && outcome.object !== undefined) this.#isDue = true;
    return outcome.result;
  }

  /** Refuses settings of a Namespace for which the role that objects are applied with does not suffice. */
  async #refusalOf(manifest: Manifest): Promise<Outcome | undefined> {
    const setting = this.#isReportDiff ? undefined : guardedSetting(manifest);
    if (setting === undefined) return undefined;
    const { session, signal } = this.#pass;
    this.#mayAdminister ??= isPermitted(session.local, GUARD, signal);
    const refused = (why: string): Outcome => ({
      result: failure("ManifestApplyFailed", `${nameOf(manifest)} has ${setting}, and ${why}`),
      object: undefined,
    });
    try {
      if (await this.#mayAdminister) return undefined;
    } catch (error) {
      return refused(`the member cannot find out whether it may set that: ${said(error)}`);
    }
    return refused(
      "the role with which this member applies objects lacks the verb administer on namespaces: remove the setting, or add the verb to the role",
    );
  }

  /** Whether nothing happened since: the watch shows the object as it was then. What failed is tried again when it is due. */
  #isUnchanged({ outcome }: Remembered, version: string | undefined): boolean {
    const { result, object, heldUntilMs } = outcome;
    const isDone = isApplied(result) || isDiffReported(result);
    if (heldUntilMs !== undefined && heldUntilMs <= this.#nowMs()) return false;
    if (object?.metadata.resourceVersion !== version) return false;
    return isDone ? version !== undefined : !this.#isDue;
  }

  /** What an earlier version of the Work applied and this one does not have. */
  #leftOver(): readonly Recorded[] {
    const wanted = new Set([
      ...this.#memory.manifests.manifests.map((it) => it.id),
      ...this.#memory.manifests.refused.map((it) => idOf(it.identifier)),
    ]);
    return recordedOf(this.#pass.owner, this.#memory).filter((it) => !wanted.has(idOf(it)));
  }

  /** Returns why it could not be removed. */
  async #release(resource: Recorded): Promise<string | undefined> {
    try {
      await release(this.#pass, this.#pass.owner, resource, "delete");
      return undefined;
    } catch (error) {
      const { kind = "", namespace, name = "" } = resource;
      return `cannot delete ${nameOf({ kind, namespace, name })}: ${said(error)}`;
    }
  }

  /** What is applied, and what is left to remove. Nothing is created, nor removed, where differences are only reported. */
  async #record(left: readonly Recorded[]): Promise<void> {
    if (this.#isReportDiff) return;
    const { owner } = this.#pass;
    const known = new Map(recordedOf(owner, this.#memory).map((it) => [idOf(it), it]));
    const present = [...this.#targets.values()].map(({ manifest, of }): Recorded => {
      const uid = this.#processed.get(manifest.ordinal)?.result.uid ?? known.get(manifest.id)?.uid;
      return { ...identifierOf(manifest, of.plural), ...(uid === undefined ? {} : { uid }) };
    });
    const all = [...present, ...left].toSorted((a, b) => a.ordinal - b.ordinal);
    await record(this.#pass, this.#memory, all);
  }

  async report(isComplete: boolean): Promise<void> {
    const { session, work, signal } = this.#pass;
    const before = knownStatus(work, this.#memory);
    const status = workStatus({
      processed: [...this.#processed.values(), ...(isComplete ? [] : this.#waiting())],
      isReportDiff: this.#isReportDiff,
      remaining: this.#remaining,
      generation: work.metadata.generation ?? 0,
      before,
      clock: session.deps.clock,
    });
    // The conditions of the Work as a whole are set at the end of the pass.
    if (!isComplete) status.conditions = before?.conditions ?? [];
    if (isComplete) new WorkMetrics(session.deps.metrics).count(status);
    await writeStatus(session, { work, memory: this.#memory, status }, signal);
  }

  /** Manifests that the pass has not come to yet, as they were found last. */
  #waiting(): Processed[] {
    const { manifests } = this.#memory.manifests;
    return manifests
      .filter((it) => !this.#processed.has(it.ordinal))
      .map((it) => ({
        identifier: identifierOf(it, this.#targets.get(it.id)?.of.plural),
        result:
          this.#memory.outcomes.get(it.id)?.outcome.result ??
          failure("PreparingToProcess", `${nameOf(it)} waits for its turn`),
      }));
  }

  /** When to look again without a change: what watches do not show. */
  next(): ReconcileResult {
    const results = [...this.#processed.values()].map((it) => it.result);
    const isDone = this.#isReportDiff
      ? results.every(isDiffReported)
      : this.#remaining.length === 0 &&
        results.every(
          (it) => isApplied(it) && (it.availability === "Available" || it.availability === "NotTrackable"),
        );
    const summary = JSON.stringify(results.map((it) => [it.reason, it.availability]));
    const isSame = summary === this.#memory.lastResult;
    const nowMs = this.#nowMs();
    const heldMs = this.#heldMs(nowMs);
    if (isSame && nowMs < this.#memory.dueMs)
      return { requeueAfterMs: Math.min(heldMs, this.#memory.dueMs - nowMs) };
    const attempts = isSame ? this.#memory.attempts + 1 : 1;
    const delayMs = this.#memory.isWanted ? 0 : retryDelayMs(attempts, isDone);
    Object.assign(this.#memory, { attempts, lastResult: summary, dueMs: nowMs + delayMs });
    return { requeueAfterMs: Math.min(heldMs, delayMs) };
  }

  /** When the first of the objects is due that were left as others changed them. Unit: milliseconds. */
  #heldMs(nowMs: number): number {
    const due = [...this.#memory.outcomes.values()].map(({ outcome }) => outcome.heldUntilMs ?? Infinity);
    return Math.max(1, Math.min(Infinity, ...due) - nowMs);
  }

  #nowMs(): number {
    return this.#pass.session.deps.clock.monotonic();
  }
}

function failure(reason: ResultReason, message: string): Result {
  return { reason, message, availability: "Skipped" };
}

/** Enough to recognize it. */
function bare<T extends { metadata: { resourceVersion?: string } } | undefined>(object: T): T {
  if (object === undefined) return object;
  const { resourceVersion } = object.metadata;
  return {
    metadata: { name: "", ...(resourceVersion === undefined ? {} : { resourceVersion }) },
  } as unknown as T;
}

async function inParallel<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const work = async (): Promise<void> => {
    for (const item of left) await act(item);
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, items.length) }, work));
}
