import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";

/**
 * The members that import a service through the fleet API: one member, fleet-wide, until it releases its claim; several, if all
 * of them ask to share it. Stored on the hub's ServiceImport as JSON: `{"MemberClusters":{"fleet-member-a":"a"}}`.
 */
export interface Claim {
  /** The mailbox of the importer. */
  readonly mailbox: string;
  readonly cluster: string;
}

/** The claims that an annotation holds, by mailbox. Text that cannot be read holds none. */
export function parseClaims(annotation: string | undefined): Claim[] {
  if (annotation === undefined) return [];
  let value: unknown;
  try {
    value = JSON.parse(annotation);
  } catch {
    return [];
  }
  const members = isObject(value) ? value["MemberClusters"] : undefined;
  if (!isObject(members)) return [];
  return Object.keys(members)
    .toSorted(byText)
    .flatMap((mailbox) => {
      const cluster = clusterOfMailbox(mailbox);
      return cluster === undefined ? [] : [{ mailbox, cluster }];
    });
}

/** Undefined if there are no claims. */
export function renderClaims(claims: readonly Claim[]): string | undefined {
  if (claims.length === 0) return undefined;
  const members: Record<string, string> = {};
  for (const it of claims.toSorted((a, b) => byText(a.mailbox, b.mailbox))) members[it.mailbox] = it.cluster;
  return JSON.stringify({ MemberClusters: members });
}

export interface Claimant extends Claim {
  /** When the member asked. RFC 3339. */
  readonly since: string;
  /** Whether it lets other members import at the same time. */
  readonly isShared: boolean;
}

/**
 * Holders keep their claim while they ask; a free one passes to the member that has asked longest. If that member shares, all
 * members that share hold it, and those that want it alone wait.
 */
export function planClaims(current: readonly Claim[], claimants: readonly Claimant[]): Claim[] {
  const held = new Set(current.map((it) => it.mailbox));
  const holders = claimants.filter((it) => held.has(it.mailbox));
  const [lead] = (holders.length > 0 ? holders : claimants).toSorted(
    (a, b) => byText(a.since, b.since) || byText(a.cluster, b.cluster),
  );
  if (lead === undefined) return [];
  return claimants
    .filter((it) => it.mailbox === lead.mailbox || (lead.isShared && it.isShared))
    .map(({ mailbox, cluster }) => ({ mailbox, cluster }))
    .toSorted((a, b) => byText(a.mailbox, b.mailbox));
}
