import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { EndpointSliceExportSpec } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { GRANTED_CIDRS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { shown } from "./formats.ts";

export interface Granted<T> {
  /** With the endpoints alone that the member has a right to; as it was where it has to all. */
  readonly spec: T;
  /** What was left out, in words; undefined where nothing was. */
  readonly problem: string | undefined;
}

/**
 * Endpoints within the networks that a member was granted: those outside are left out, so that one that should not be there
 * takes no others along. A grant that cannot be read grants nothing: who wrote it meant to keep something out.
 *
 * @param granted - Networks with commas between; undefined: any.
 */
export function withinGrant<T extends Pick<EndpointSliceExportSpec, "endpoints">>(
  spec: T,
  granted: string | undefined,
): Granted<T> {
  if (granted === undefined) return { spec, problem: undefined };
  const texts = granted.split(",").map((it) => it.trim());
  const networks = texts.map((it) => tryParsePrefix(it, { hostBits: "clear" }));
  const unread = texts[networks.indexOf(undefined)];
  if (unread !== undefined)
    return {
      spec: { ...spec, endpoints: [] },
      problem: `the annotation ${GRANTED_CIDRS_ANNOTATION} of the MemberCluster has ${shown(unread)}, which is not a CIDR`,
    };
  const stranger = ({ addresses }: EndpointSliceExportSpec["endpoints"][number]): string | undefined =>
    addresses.find((it) => !isWithin(it, networks));
  const endpoints = spec.endpoints.filter((it) => stranger(it) === undefined);
  if (endpoints.length === spec.endpoints.length) return { spec, problem: undefined };
  const [first] = spec.endpoints.flatMap((it) => stranger(it) ?? []);
  return {
    spec: { ...spec, endpoints },
    problem: `${(first ?? "").slice(0, 60)} is not in the granted CIDRs of the member (${granted}); ${spec.endpoints.length - endpoints.length} of ${spec.endpoints.length} endpoints are left out`,
  };
}

function isWithin(text: string, networks: readonly (Prefix | undefined)[]): boolean {
  const address = tryParseAddress(text);
  return address !== undefined && networks.some((it) => it !== undefined && containsAddress(it, address));
}
