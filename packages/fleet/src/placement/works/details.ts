import { defined } from "@fairlead/base/defined.ts";
import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  ENVELOPE_NAME_LABEL,
  ENVELOPE_NAMESPACE_LABEL,
  ENVELOPE_WORK_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  EnvelopeIdentifier,
  PatchDetail,
  PlacementDetails,
  ResourceIdentifier,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ManifestCondition, Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { APPLIED, AVAILABLE, DIFF_REPORTED } from "../conditions.ts";

/** Entries of each list of a binding, and differences of each entry, as the API has it. */
const MAX_ENTRIES = 100;
/** What a member says of its objects is bounded: an object of the API server holds 1.5 MiB. Unit: characters of JSON, per list. */
const MAX_LENGTH = 256 * 1024;

/** What a binding says of single objects: the first that failed, that were changed in the member, that differ there. */
export function placementDetails(works: readonly Work[]): PlacementDetails {
  const { failedPlacements, driftedPlacements, diffedPlacements } = allDetails(works);
  return defined({
    failedPlacements: bounded(failedPlacements),
    driftedPlacements: bounded(
      driftedPlacements.map((it) => ({ ...it, observedDrifts: firstOf(it.observedDrifts) })),
    ),
    diffedPlacements: bounded(
      diffedPlacements.map((it) => ({ ...it, observedDiffs: firstOf(it.observedDiffs) })),
    ),
  });
}

/** All that the Works report of single objects. */
export function allDetails(works: readonly Work[]): Required<PlacementDetails> {
  const ordered = works
    .toSorted((a, b) => byText(a.metadata.name, b.metadata.name))
    .flatMap((work) =>
      (work.status?.manifestConditions ?? [])
        .toSorted((a, b) => a.identifier.ordinal - b.identifier.ordinal)
        .map((manifest) => ({ manifest, id: identifierOf(work, manifest) })),
    );
  return {
    failedPlacements: ordered.flatMap(({ manifest, id }) => {
      const condition = failureOf(manifest);
      return condition === undefined ? [] : [{ ...id, condition }];
    }),
    driftedPlacements: ordered.flatMap(({ manifest: { driftDetails }, id }) => {
      if (!isObject(driftDetails)) return [];
      const { observedInMemberClusterGeneration: targetClusterObservedGeneration, ...rest } = driftDetails;
      return [{ ...id, ...rest, targetClusterObservedGeneration }];
    }),
    diffedPlacements: ordered.flatMap(({ manifest: { diffDetails }, id }) => {
      if (!isObject(diffDetails)) return [];
      const { observedInMemberClusterGeneration: targetClusterObservedGeneration, ...rest } = diffDetails;
      return [{ ...id, ...rest, ...defined({ targetClusterObservedGeneration }) }];
    }),
  };
}

/** What a binding may say of the objects of a Work: what an informer keeps of their conditions. */
export function notable(manifests: readonly ManifestCondition[]): ManifestCondition[] {
  return manifests.filter(isNotable).map(({ driftDetails, diffDetails, ...rest }) => ({
    ...rest,
    ...(driftDetails && {
      driftDetails: { ...driftDetails, observedDrifts: firstOf(driftDetails.observedDrifts) },
    }),
    ...(diffDetails && {
      diffDetails: { ...diffDetails, observedDiffs: firstOf(diffDetails.observedDiffs) },
    }),
  }));
}

function isNotable(manifest: ManifestCondition): boolean {
  return (
    failureOf(manifest) !== undefined ||
    manifest.driftDetails !== undefined ||
    manifest.diffDetails !== undefined
  );
}

/** Some agents write null for a list without entries. */
function firstOf(details: readonly PatchDetail[] | null | undefined): PatchDetail[] {
  return (details ?? []).slice(0, MAX_ENTRIES);
}

function failureOf({ conditions }: ManifestCondition) {
  return [APPLIED, DIFF_REPORTED, AVAILABLE]
    .map((type) => findCondition(conditions, type))
    .find((it) => it?.status === "False");
}

function identifierOf({ metadata }: Work, { identifier }: ManifestCondition): ResourceIdentifier {
  const { group, version = "", kind = "", namespace, name = "" } = identifier;
  return { ...nonEmpty({ group, namespace }), version, kind, name, ...envelopeOf(metadata.labels ?? {}) };
}

function envelopeOf(labels: Readonly<Record<string, string>>): { envelope?: EnvelopeIdentifier } {
  const { [ENVELOPE_WORK_LABEL]: type, [ENVELOPE_NAME_LABEL]: name } = labels;
  if (type === undefined || name === undefined) return {};
  const namespace = labels[ENVELOPE_NAMESPACE_LABEL];
  return {
    envelope: { name, ...nonEmpty({ namespace }), type: type as NonNullable<EnvelopeIdentifier["type"]> },
  };
}

function nonEmpty<K extends string>(
  fields: Readonly<Record<K, string | undefined>>,
): { [Key in K]?: string } {
  const kept = Object.entries<string | undefined>(fields).filter(([, value]) => (value ?? "") !== "");
  return Object.fromEntries(kept) as { [Key in K]?: string };
}

/** The first entries that fit; undefined if there are no entries. */
function bounded<T>(entries: readonly T[]): T[] | undefined {
  let length = 0;
  const kept = entries.slice(0, MAX_ENTRIES).filter((it) => {
    length += JSON.stringify(it).length;
    return length <= MAX_LENGTH;
  });
  return kept.length === 0 ? undefined : kept;
}
