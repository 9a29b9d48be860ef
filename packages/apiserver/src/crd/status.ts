import { approvalOf } from "./approval.ts";
import { timestamp } from "#registry/metadata.ts";
import { type Crd, type CrdCondition, type CrdNames, type CrdStatus, isEstablished } from "./types.ts";

/**
 * The status of a CRD, worked out in the write that changes it: names are accepted and the resource is established at
 * once. (Upstream does both a little later, and clients have to wait for it.)
 * Source: apiextensions-apiserver, pkg/controller/status and establish.
 */
export function planCrdStatus(crd: Crd, others: readonly Crd[], nowMs: number): CrdStatus {
  const before = crd.status ?? {};
  const { accepted, conflict } = acceptNames(crd, others);
  const { condition: approval } = approvalOf(crd);
  const planned: readonly (Reported | undefined)[] = [
    conflict ?? NO_CONFLICTS,
    conflict === undefined || isEstablished(crd) ? ESTABLISHED : NOT_ACCEPTED,
    approval,
    crd.metadata.deletionTimestamp === undefined ? undefined : TERMINATING,
  ];
  return {
    conditions: planned
      .filter((it) => it !== undefined)
      .map((it) => withTransition(it, before.conditions ?? [], nowMs)),
    acceptedNames: accepted,
    storedVersions:
      (before.storedVersions ?? []).length === 0 ? storedVersionsOf(crd) : (before.storedVersions ?? []),
  };
}

/** The versions that objects may be stored in: those so far, and the one that is the storage version now. */
export function storedVersionsOf({
  spec,
  status,
}: {
  spec?: Partial<Crd["spec"]>;
  status?: CrdStatus;
}): string[] {
  const versions = spec?.versions ?? [];
  const storage = versions.filter((it) => it.storage).slice(0, 1);
  return [...new Set([...(status?.storedVersions ?? []), ...storage.map((it) => it.name)])];
}

type Reported = Omit<CrdCondition, "lastTransitionTime">;

const NO_CONFLICTS: Reported = {
  type: "NamesAccepted",
  status: "True",
  reason: "NoConflicts",
  message: "no conflicts found",
};
const ESTABLISHED: Reported = {
  type: "Established",
  status: "True",
  reason: "InitialNamesAccepted",
  message: "the initial names have been accepted",
};
const NOT_ACCEPTED: Reported = {
  type: "Established",
  status: "False",
  reason: "NotAccepted",
  message: "not all names are accepted",
};
const TERMINATING: Reported = {
  type: "Terminating",
  status: "True",
  reason: "InstanceDeletionInProgress",
  message: "CustomResource deletion is in progress",
};

const MARKED: Reported = {
  type: "Terminating",
  status: "True",
  reason: "InstanceDeletionPending",
  message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
};

function withTransition(planned: Reported, before: readonly CrdCondition[], nowMs: number): CrdCondition {
  const known = before.find((it) => it.type === planned.type);
  const isSame = known?.status === planned.status;
  return { ...planned, lastTransitionTime: isSame ? known.lastTransitionTime : timestamp(nowMs) };
}

/** The status of a definition whose deletion begins; the next write reports the deletion of its instances. */
export function terminating({ status = {} }: Crd, nowMs: number): CrdStatus {
  const others = (status.conditions ?? []).filter((it) => it.type !== MARKED.type);
  return { ...status, conditions: [...others, withTransition(MARKED, [], nowMs)] };
}

/** Accepts each name separately: if another CRD of the group holds it, the accepted name stays; the last conflict is reported. */
function acceptNames(
  crd: Crd,
  others: readonly Crd[],
): { readonly accepted: Partial<CrdNames>; readonly conflict: Reported | undefined } {
  const inGroup = others.filter(
    (it) => it.spec.group === crd.spec.group && it.metadata.name !== crd.metadata.name,
  );
  const taken = inGroup.map((it) => it.status?.acceptedNames ?? {});
  const resources = new Set(taken.flatMap((it) => [it.plural, it.singular, ...(it.shortNames ?? [])]));
  const kinds = new Set(taken.flatMap((it) => [it.kind, it.listKind]));
  const { plural, singular, shortNames, kind, listKind, categories } = crd.spec.names;
  const before = crd.status?.acceptedNames ?? {};
  const accepted: { -readonly [Name in keyof CrdNames]?: CrdNames[Name] } = {
    plural: "",
    kind: "",
    ...before,
  };
  let conflict: Reported | undefined;
  const take = (
    names: Partial<CrdNames>,
    reason: string,
    {
      wanted,
      held,
      used,
    }: { wanted: readonly string[]; held: readonly string[]; used: ReadonlySet<unknown> },
  ): void => {
    const inUse = wanted.filter((it) => !held.includes(it) && used.has(it));
    if (inUse.length === 0) Object.assign(accepted, names);
    else conflict = { type: "NamesAccepted", status: "False", reason, message: inUseText(inUse) };
  };
  const one = (name: string | undefined): string[] => (name === undefined ? [] : [name]);
  take({ plural }, "PluralConflict", { wanted: [plural], held: one(before.plural), used: resources });
  if (singular !== undefined)
    take({ singular }, "SingularConflict", {
      wanted: [singular],
      held: one(before.singular),
      used: resources,
    });
  if (shortNames === undefined) delete accepted.shortNames;
  else
    take({ shortNames }, "ShortNamesConflict", {
      wanted: shortNames,
      held: before.shortNames ?? [],
      used: resources,
    });
  take({ kind }, "KindConflict", { wanted: [kind], held: one(before.kind), used: kinds });
  if (listKind !== undefined)
    take({ listKind }, "ListKindConflict", { wanted: [listKind], held: one(before.listKind), used: kinds });
  if (categories === undefined) delete accepted.categories;
  else accepted.categories = categories;
  return { accepted, conflict };
}

/** Joins several problems in brackets, as Go's aggregate errors do. */
function inUseText(names: readonly string[]): string {
  const texts = names.map((it) => `${JSON.stringify(it)} is already in use`);
  return texts.length === 1 ? texts.join("") : `[${texts.join(", ")}]`;
}
