import { byText } from "@fairlead/base/text.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ALLOWED_EXPORTERS_ANNOTATION, ALLOWED_IMPORTERS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { type ExportedService, isFor } from "./exported-service.ts";
import { type MergedService, mergeExports } from "./merge.ts";

/** The members of the fleet. */
export type Members = Pick<ReadonlySet<string>, "has">;

/** Which members see what of a service whose exports are not all for everyone. */

export interface Audiences {
  /** For every member that is not in `special`. Undefined: they have no such service. */
  readonly everyone: MergedService["spec"] | undefined;
  /** For members that see more than everyone: those that an export names, and its own cluster. */
  readonly special: ReadonlyMap<string, MergedService["spec"]>;
}

/** Members that may import the services of a namespace, as its administrators specify; undefined: all. Each sees its own always. */
export function allowedImporters(namespace: KubeObject | undefined): readonly string[] | undefined {
  return membersIn(namespace?.metadata.annotations?.[ALLOWED_IMPORTERS_ANNOTATION]);
}

/** Members that may export services of a namespace, as its administrators specify; undefined: all. */
export function allowedExporters(namespace: KubeObject | undefined): readonly string[] | undefined {
  return membersIn(namespace?.metadata.annotations?.[ALLOWED_EXPORTERS_ANNOTATION]);
}

function membersIn(text: string | undefined): readonly string[] | undefined {
  return text
    ?.split(",")
    .map((it) => it.trim())
    .filter((it) => it !== "");
}

/** The members that an export is for: those that it names, if they are allowed. */
export function narrowed(
  exportTo: readonly string[] | undefined,
  allowed: readonly string[] | undefined,
): readonly string[] | undefined {
  return allowed === undefined ? exportTo : (exportTo ?? allowed).filter((it) => allowed.includes(it));
}

/**
 * What each member imports: what the exports that it sees come to, as if there were no others.
 *
 * @param members - Those of the fleet; other names get nothing.
 */
export function mergeForAudiences(exports: readonly ExportedService[], members: Members): Audiences {
  const open = exports.filter((it) => it.exportTo === undefined);
  const narrow = exports.filter((it) => it.exportTo !== undefined);
  const named = new Set(narrow.flatMap((it) => [it.cluster, ...(it.exportTo ?? [])]));
  const merged = new Map<string, MergedService["spec"] | undefined>();
  const special = new Map<string, MergedService["spec"]>();
  for (const member of [...named].filter((it) => members.has(it)).toSorted(byText)) {
    const extra = narrow.filter((it) => isFor(it, member));
    const key = extra.map((it) => it.cluster).join(" ");
    if (!merged.has(key)) merged.set(key, mergeExports([...open, ...extra])?.spec);
    const spec = merged.get(key);
    if (spec !== undefined) special.set(member, spec);
  }
  return { everyone: mergeExports(open)?.spec, special };
}

/** Names in an export that are not members, sorted. */
export function strangersOf({ exportTo = [] }: ExportedService, members: Members): string[] {
  return exportTo.filter((it) => !members.has(it)).toSorted(byText);
}
