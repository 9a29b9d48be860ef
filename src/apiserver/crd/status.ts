import { timestamp } from "../registry/metadata.ts";
import type { Crd, CrdCondition, CrdNames, CrdStatus } from "./types.ts";

/**
 * The status of a CRD, worked out in the write that changes it: names are accepted and the resource is established at
 * once. (Upstream does both a little later, and clients have to wait for it.)
 * Source: apiextensions-apiserver, pkg/controller/status and establish.
 */
export function planCrdStatus(crd: Crd, others: readonly Crd[], nowMs: number): CrdStatus {
  const before = crd.status ?? {};
  const problem = findNameConflict(crd, others);
  const accepted = acceptNames(crd, before.acceptedNames, problem);
  const isAccepted = problem === undefined;
  const wasEstablished =
    before.conditions?.some((it) => it.type === "Established" && it.status === "True") ?? false;
  const storage = crd.spec.versions.find((it) => it.storage)?.name ?? "";
  const stored = before.storedVersions ?? [];
  const planned: Omit<CrdCondition, "lastTransitionTime">[] = [
    problem ?? {
      type: "NamesAccepted",
      status: "True",
      reason: "NoConflicts",
      message: "no conflicts found",
    },
    isAccepted || wasEstablished
      ? {
          type: "Established",
          status: "True",
          reason: "InitialNamesAccepted",
          message: "the initial names have been accepted",
        }
      : {
          type: "Established",
          status: "False",
          reason: "NotAccepted",
          message: "not all names are accepted",
        },
  ];
  if (crd.metadata.deletionTimestamp !== undefined) planned.push(TERMINATING);
  return {
    conditions: planned.map((it) => withTransition(it, before.conditions ?? [], nowMs)),
    acceptedNames: accepted,
    storedVersions: stored.includes(storage) ? stored : [...stored, storage],
  };
}

const TERMINATING = {
  type: "Terminating",
  status: "True",
  reason: "InstanceDeletionInProgress",
  message: "CustomResource deletion is in progress",
} as const;

function withTransition(
  planned: Omit<CrdCondition, "lastTransitionTime">,
  before: readonly CrdCondition[],
  nowMs: number,
): CrdCondition {
  const known = before.find((it) => it.type === planned.type);
  const isSame = known?.status === planned.status;
  return { ...planned, lastTransitionTime: isSame ? known.lastTransitionTime : timestamp(nowMs) };
}

/** Names that other CRDs of the group hold already. */
function findNameConflict(
  crd: Crd,
  others: readonly Crd[],
): Omit<CrdCondition, "lastTransitionTime"> | undefined {
  const inGroup = others.filter(
    (it) => it.spec.group === crd.spec.group && it.metadata.name !== crd.metadata.name,
  );
  const taken = inGroup.map((it) => it.status?.acceptedNames ?? {});
  const plurals = new Set(taken.flatMap((it) => [it.plural, it.singular, ...(it.shortNames ?? [])]));
  const kinds = new Set(taken.flatMap((it) => [it.kind, it.listKind]));
  const { plural, singular, shortNames = [], kind, listKind } = crd.spec.names;
  const refuse = (reason: string, name: string | undefined): Omit<CrdCondition, "lastTransitionTime"> => ({
    type: "NamesAccepted",
    status: "False",
    reason,
    message: `${JSON.stringify(name)} is already in use`,
  });
  if (plurals.has(plural)) return refuse("PluralConflict", plural);
  if (singular !== undefined && plurals.has(singular)) return refuse("SingularConflict", singular);
  const short = shortNames.find((it) => plurals.has(it));
  if (short !== undefined) return refuse("ShortNamesConflict", short);
  if (kinds.has(kind)) return refuse("KindConflict", kind);
  if (listKind !== undefined && kinds.has(listKind)) return refuse("ListKindConflict", listKind);
  return undefined;
}

/** A CRD whose new names conflict keeps those it has. */
function acceptNames(
  { spec }: Crd,
  before: Partial<CrdNames> | undefined,
  problem: object | undefined,
): Partial<CrdNames> {
  if (problem === undefined) return spec.names;
  return before ?? { plural: "", kind: "" };
}
