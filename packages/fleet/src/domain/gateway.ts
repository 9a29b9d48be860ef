import { sameJson } from "@fairlead/base/json.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import {
  type Gateway,
  MAX_BASE_PORT,
  MAX_KEY_EPOCH,
  MAX_ORDINAL,
  MIN_BASE_PORT,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Change } from "@fairlead/kube/types.ts";
import { isPortNumber, isSubdomain, shown } from "./formats.ts";

/** What a member may say of its gateways. Pure. */

/** Unique: cluster names contain dashes, but what follows the last one is the ordinal. */
export function gatewayName(cluster: string, ordinal: number): string {
  return `${cluster}-${ordinal}`;
}

/** The names of all gateways that a member may have. */
export function gatewayNames(cluster: string): string[] {
  return Array.from({ length: MAX_ORDINAL + 1 }, (_, ordinal) => gatewayName(cluster, ordinal));
}

/** Whether a Gateway changed in something other than the report of its tunnels. */
export function isMoreThanPaths({ before, after }: Change<Gateway>): boolean {
  if (before === undefined || after === undefined) return true;
  const facts = ({ metadata, spec, status }: Gateway) => ({
    spec,
    conditions: status?.conditions,
    deletionTimestamp: metadata.deletionTimestamp,
    uid: metadata.uid,
  });
  return !sameJson(facts(before), facts(after));
}

/** Clusters to which a gateway has a tunnel that answers, as its node reports. */
export function reachedClusters(gateway: Gateway | undefined): ReadonlySet<string> {
  const answering = (gateway?.status?.paths ?? []).filter((it) => it.path !== "none");
  return new Set(answering.map((it) => it.cluster));
}

/** Whether a gateway reaches a cluster that it did not reach, or reaches one no longer. */
export function isReachChanged({ before, after }: Change<Gateway>): boolean {
  return reachedClusters(before).symmetricDifference(reachedClusters(after)).size > 0;
}

/** As in the CRD, which an older hub may not have. */
const MAX_KEYS = 2;
const MAX_CANDIDATES = 16;

/** Points of small order, and what is congruent to zero: a tunnel with such a key has no secret. Source: RFC 7748, section 6.1. */
const WEAK_KEYS = new Set([
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
  "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]);
/** 2^255 - 19. */
const FIELD = 2n ** 255n - 19n;

/** Whether a text is a WireGuard public key, in the only way to write it: two texts are never one key. */
export function isPublicKey(text: unknown): boolean {
  if (typeof text !== "string" || text.length !== 44) return false;
  const bytes = Buffer.from(text, "base64");
  if (bytes.length !== 32 || bytes.toString("base64") !== text) return false;
  return (
    BigInt(`0x${Buffer.from(bytes.toReversed()).toString("hex")}`) < FIELD &&
    !WEAK_KEYS.has(bytes.toString("hex"))
  );
}

/** The fault of what a member says of a gateway, by the name that its objects must have; undefined if valid. */
export function findGatewayProblem(
  { metadata: { name }, spec }: Gateway,
  cluster: string,
): string | undefined {
  const { keys = [], candidates = [], basePort } = spec;
  if (spec.cluster !== cluster)
    return `spec.cluster is ${shown(spec.cluster)}, but this is the mailbox of ${cluster}`;
  if (name !== gatewayName(cluster, spec.ordinal))
    return `spec.ordinal is ${shown(spec.ordinal)}, which is not that of the name ${shown(name)}`;
  if (!isSubdomain(spec.node)) return `spec.node ${shown(spec.node)} is not the name of a node`;
  const ofKeys = findKeyProblem(keys);
  if (ofKeys !== undefined) return ofKeys;
  if (basePort !== undefined && !isBasePort(basePort))
    return `spec.basePort ${shown(basePort)} is not ${MIN_BASE_PORT} to ${MAX_BASE_PORT}`;
  if (candidates.length > MAX_CANDIDATES)
    return `spec.candidates has ${candidates.length} entries; at most ${MAX_CANDIDATES} are allowed`;
  return undefined;
}

function findKeyProblem(keys: NonNullable<Gateway["spec"]["keys"]>): string | undefined {
  if (keys.length > MAX_KEYS) return `spec.keys has ${keys.length} keys; at most ${MAX_KEYS} are allowed`;
  const bad = keys.find(
    (it) =>
      !Number.isSafeInteger(it.epoch) ||
      it.epoch < 1 ||
      it.epoch > MAX_KEY_EPOCH ||
      !isPublicKey(it.publicKey),
  );
  if (bad !== undefined)
    return `spec.keys has ${shown(bad.publicKey)} for epoch ${shown(bad.epoch)}, which is not a WireGuard public key of an epoch`;
  if (new Set(keys.map((it) => it.epoch)).size < keys.length) return "spec.keys has two keys of one epoch";
  if (new Set(keys.map((it) => it.publicKey)).size < keys.length) return "spec.keys has one key twice";
  return undefined;
}

export function isBasePort(value: number): boolean {
  return isPortNumber(value) && value >= MIN_BASE_PORT && value <= MAX_BASE_PORT;
}

/** Whether it is an IPv4 address of the network that the tunnels make. */
export function isFleetAddress(text: string | undefined, within: readonly Prefix[]): text is string {
  const address = typeof text === "string" ? tryParseAddress(text) : undefined;
  return typeof address === "number" && within.some((it) => containsAddress(it, address));
}
