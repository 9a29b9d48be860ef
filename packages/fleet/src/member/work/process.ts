import { defined } from "@fairlead/base/defined.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { SPEC_HASH_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import { diffObjects, MISSING_OBJECT } from "#placement/work/diff.ts";
import { afterCorrection, type Corrections, heldUntilMs } from "#placement/work/corrections.ts";
import { nameOf } from "#placement/work/manifest.ts";
import { ownerReferenceTo, type Owners } from "#placement/work/ownership.ts";
import type { Result, ResultReason } from "#placement/work/result.ts";
import { compare } from "./compare.ts";
import { readOwners } from "./owners.ts";
import { keyOfTarget, type Target, type WorkPass } from "./parts.ts";
import { said } from "./said.ts";
import { addOwners, type Verb, write, type Written } from "./write.ts";

/** How often a manifest is tried again at once because the object was changed by others in between. */
const MAX_CONFLICTS = 5;

export interface Outcome {
  readonly result: Result;
  /** The object as it was then, to recognize that nothing changed since; undefined if it does not exist. */
  readonly object: KubeObject | undefined;
  /** See `Written`. */
  readonly noop?: string | undefined;
  /** How often it was put back. */
  readonly corrections?: Corrections | undefined;
  /** Until when it is left as others changed it. Monotonic. Unit: milliseconds. */
  readonly heldUntilMs?: number | undefined;
}

/** What is known of an object from earlier passes. */
export type History = Pick<Outcome, "noop" | "corrections">;

/** One manifest, in the order that KubeFleet documents: find, take over, compare or apply, compare again. */
export async function processTarget(pass: WorkPass, target: Target, history: History): Promise<Outcome> {
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await new ManifestPass(pass, target, history).run();
    if (outcome !== "conflict") return outcome;
    if (attempt === MAX_CONFLICTS) {
      const message = `cannot apply ${nameOf(target.manifest)}: others change it all the time`;
      return {
        result: { reason: "ManifestApplyFailed", message, availability: "Skipped" },
        object: undefined,
      };
    }
  }
}

class ManifestPass {
  readonly #pass: WorkPass;
  readonly #target: Target;
  readonly #history: History;

  constructor(pass: WorkPass, target: Target, history: History) {
    this.#pass = pass;
    this.#target = target;
    this.#history = history;
  }

  async run(): Promise<Outcome | "conflict"> {
    let live: KubeObject | undefined;
    try {
      live = await this.#find();
    } catch (error) {
      return this.#failure("FailedToFindObjInMemberCluster", this.#cannot("get", error), undefined);
    }
    if (this.#pass.strategy.type === "ReportDiff") return this.#reportDiff(live);
    if (live === undefined) return this.#apply(undefined, undefined);
    const owners = await readOwners(this.#pass, live);
    if (owners.superior !== undefined) return this.#leaveTo(owners.superior, live, owners);
    return (
      (owners.isOurs ? undefined : await this.#refuseTakeOver(live, owners)) ??
      this.#applyUndrifted(live, owners)
    );
  }

  #find(): Promise<KubeObject | undefined> {
    const { requests, session, signal } = this.#pass;
    return requests.timed(signal, (timed) =>
      session.local.find(this.#target.of, keyOfTarget(this.#target), { signal: timed }),
    );
  }

  /** Why an object that was there before is not taken over; undefined if it is. */
  async #refuseTakeOver(live: KubeObject, { rival, foreign }: Owners): Promise<Outcome | undefined> {
    const { allowCoOwnership, whenToTakeOver } = this.#pass.strategy;
    const name = nameOf(this.#target.manifest);
    if (rival !== undefined)
      return this.#failure(
        "ApplyConflictBetweenPlacements",
        `${name} is placed here by another placement already (Work ${rival.name}): an object belongs to one placement`,
        live,
      );
    const [other] = foreign;
    if (other !== undefined && allowCoOwnership !== true)
      return this.#failure(
        "ManifestsAlreadyOwnedByOthers",
        `${name} is owned by ${other.kind} ${other.name}: set allowCoOwnership to apply it all the same`,
        live,
      );
    if (whenToTakeOver === "Never")
      return this.#failure(
        "NotTakenOver",
        `${name} was in this cluster before, and whenToTakeOver is Never: delete it, or let it be taken over`,
        live,
      );
    if (whenToTakeOver !== "IfNoDiff") return undefined;
    try {
      const { diffs } = await compare(this.#pass, this.#target, live);
      if (diffs.length === 0) return undefined;
      const message = `${name} was in this cluster before and differs from the manifest, and whenToTakeOver is IfNoDiff`;
      return this.#failure("FailedToTakeOver", message, live, { diffs });
    } catch (error) {
      return this.#failure("FailedToTakeOver", this.#cannot("compare", error), live);
    }
  }

  /** An object that a Work with a higher priority applies: this one only owns it as well, so that it stays when the other one goes. */
  async #leaveTo(superior: OwnerReference, live: KubeObject, owners: Owners): Promise<Outcome | "conflict"> {
    const target = this.#target;
    const pass = this.#pass;
    let object = live;
    try {
      if (!owners.isOurs) object = await addOwners(pass, target, { live, owners: this.#ownersAfter(owners) });
    } catch (error) {
      if (isConcurrent(error, live)) return "conflict";
      return this.#failure("ManifestApplyFailed", this.#cannot("patch", error), live);
    }
    const message = `${nameOf(target.manifest)} is applied by Work ${superior.name}, whose placement has the higher sharedPriority`;
    const result = { reason: "Applied" as const, message, ...this.#seen(object) };
    return { result: { ...result, ...this.#judged(object) }, object };
  }

  async #applyUndrifted(live: KubeObject, owners: Owners): Promise<Outcome | "conflict"> {
    const { whenToApply } = this.#pass.strategy;
    const isSameManifest = live.metadata.annotations?.[SPEC_HASH_ANNOTATION] === this.#target.manifest.hash;
    // A difference to another manifest is what an update is there to remove.
    if (whenToApply === "IfNotDrifted" && owners.isOurs && isSameManifest) {
      try {
        const { diffs, isDegraded } = await compare(this.#pass, this.#target, live);
        if (diffs.length > 0) return this.#drifted(live, diffs, isDegraded);
      } catch (error) {
        return this.#failure("FailedToRunDriftDetection", this.#cannot("compare", error), live);
      }
    }
    return this.#apply(live, owners);
  }

  #drifted(live: KubeObject, drifts: Result["drifts"], isDegraded: boolean): Outcome {
    const message = `${nameOf(this.#target.manifest)} was changed in this cluster, and whenToApply is IfNotDrifted${degraded(isDegraded)}`;
    const reason = isDegraded ? "FoundDriftsInDegradedMode" : "FoundDrifts";
    return this.#failure(reason, message, live, drifts === undefined ? {} : { drifts });
  }

  async #apply(live: KubeObject | undefined, owners: Owners | undefined): Promise<Outcome | "conflict"> {
    let verb: Verb = "patch";
    let written: Written;
    try {
      written = await write(this.#pass, {
        target: this.#target,
        live,
        owners: this.#ownersAfter(owners),
        noop: this.#history.noop,
        isHeld: this.#isHeld(),
        onVerb: (it) => (verb = it),
      });
    } catch (error) {
      if (isConcurrent(error, live)) return "conflict";
      return this.#failure("ManifestApplyFailed", this.#cannot(verb, error), live);
    }
    return this.#applied(written);
  }

  #ownersAfter(owners: Owners | undefined) {
    const own = ownerReferenceTo(this.#pass.owner);
    const kept = owners?.kept ?? [];
    return owners?.isOurs === true ? kept : [...kept, own];
  }

  #isHeld(): boolean {
    const { corrections } = this.#history;
    return corrections !== undefined && this.#pass.session.deps.clock.monotonic() < heldUntilMs(corrections);
  }

  /** With a comparison of all fields, also what others set is reported, although it is not changed. */
  #applied({ object, noop, drift }: Written): Outcome {
    const before = this.#history.corrections;
    const corrections =
      drift === "put back" ? afterCorrection(before, this.#pass.session.deps.clock.monotonic()) : before;
    const isHeld = drift === "held" && corrections !== undefined;
    const { comparisonOption, maxDifferences } = this.#pass.strategy;
    const isFull = comparisonOption === "FullComparison";
    const drifts = isFull ? diffObjects(object, this.#target.manifest.object, maxDifferences) : [];
    const result = {
      reason: "Applied" as const,
      message: `${nameOf(this.#target.manifest)} is applied${isHeld ? AGAIN : ""}`,
      drifts,
      ...this.#seen(object),
    };
    const held = { noop, corrections, ...(isHeld ? { heldUntilMs: heldUntilMs(corrections) } : {}) };
    return { result: { ...result, ...this.#judged(object) }, object, ...held };
  }

  #judged(object: KubeObject): Pick<Result, "availability" | "availabilityDetail"> {
    const { health, strategy } = this.#pass;
    const { availability, detail } = health.judge(strategy.healthRules ?? [], this.#target.manifest, object);
    return { availability, ...defined({ availabilityDetail: detail }) };
  }

  async #reportDiff(live: KubeObject | undefined): Promise<Outcome> {
    const name = nameOf(this.#target.manifest);
    if (live === undefined)
      return this.#failure("FoundDiff", `${name} is not in this cluster`, live, { diffs: MISSING_OBJECT });
    try {
      const { diffs, isDegraded } = await compare(this.#pass, this.#target, live);
      if (diffs.length === 0) return this.#failure("NoDiffFound", `${name} is as the manifest says`, live);
      const reason = isDegraded ? "FoundDiffInDegradedMode" : "FoundDiff";
      return this.#failure(reason, `${name} differs from the manifest${degraded(isDegraded)}`, live, {
        diffs,
      });
    } catch (error) {
      return this.#failure("FailedToReportDiff", this.#cannot("compare", error), live);
    }
  }

  #cannot(verb: Verb | "compare", error: unknown): string {
    const { manifest } = this.#target;
    return `cannot ${verb} ${nameOf(manifest)}: ${said(error, manifest.object)}`;
  }

  #failure(
    reason: ResultReason,
    message: string,
    live: KubeObject | undefined,
    details: Pick<Result, "drifts" | "diffs"> = {},
  ): Outcome {
    return {
      result: { reason, message, availability: "Skipped", ...details, ...this.#seen(live) },
      object: live,
    };
  }

  #seen(object: KubeObject | undefined): Pick<Result, "uid" | "generation" | "status"> {
    if (object === undefined) return {};
    const { status } = object as { status?: unknown };
    const isReported = this.#pass.work.spec.reportBackStrategy?.type === "Mirror" && isObject(status);
    const { uid, generation } = object.metadata;
    const { apiVersion, kind } = this.#target.manifest.object;
    return { uid, generation, ...(isReported ? { status: { apiVersion, kind, status } } : {}) };
  }
}

const AGAIN =
  "; others change it again and again, so it is put back later: remove what they set from the manifest, or stop them";

function degraded(isDegraded: boolean): string {
  return isDegraded
    ? " (degraded: all fields are compared, because the API server refuses the comparison of managed fields)"
    : "";
}

/** Whether the object was created, changed or deleted since it was read. */
function isConcurrent(error: unknown, live: KubeObject | undefined): boolean {
  if (live === undefined) return hasCode(error, "API_ALREADY_EXISTS");
  return hasCode(error, "API_CONFLICT") && !isFieldConflict(error);
}

/** Of a server-side apply: another manager owns a field, which does not change by itself. */
function isFieldConflict(error: unknown): boolean {
  return said(error).includes("conflict with ") || said(error).includes("conflicts with ");
}
