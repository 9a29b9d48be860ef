import { isObject } from "#base/json.ts";
import { byText } from "#base/text.ts";
import { clusterOfMailbox } from "../../networking.fleet.azure.com/names.ts";

/**
 * Who imports a service through the fleet door: at most one member, fleet-wide, until it lets go. Kept on the hub's
 * ServiceImport as JSON: `{"MemberClusters":{"fleet-member-a":"a"}}`.
 */
export interface Claim {
  /** The mailbox of the importer. */
  readonly mailbox: string;
  readonly cluster: string;
}

/** The claim that an annotation holds. Text that cannot be read holds none. */
export function parseClaim(annotation: string | undefined): Claim | undefined {
  if (annotation === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(annotation);
  } catch {
    return undefined;
  }
  const members = isObject(value) ? value["MemberClusters"] : undefined;
  if (!isObject(members)) return undefined;
  const mailbox = Object.keys(members).toSorted(byText)[0];
  const cluster = clusterOfMailbox(mailbox);
  return mailbox === undefined || cluster === undefined ? undefined : { mailbox, cluster };
}

export function renderClaim(claim: Claim): string {
  return JSON.stringify({ MemberClusters: { [claim.mailbox]: claim.cluster } });
}

export interface Claimant extends Claim {
  /** When the member asked. RFC 3339. */
  readonly since: string;
}

/** The holder keeps the claim while it asks; a free one goes to whoever has asked longest. */
export function planClaim(current: Claim | undefined, claimants: readonly Claimant[]): Claim | undefined {
  const holder = claimants.find((it) => it.mailbox === current?.mailbox);
  const next =
    holder ?? claimants.toSorted((a, b) => byText(a.since, b.since) || byText(a.cluster, b.cluster)).at(0);
  return next === undefined ? undefined : { mailbox: next.mailbox, cluster: next.cluster };
}
