import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { EndpointSliceExportSpec } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { GRANTED_CIDRS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { shown } from "./formats.ts";

export interface Granted<T> {
  /** With only the granted endpoints; unchanged if all are granted. */
  readonly spec: T;
  /** The endpoints that were left out, for a message; undefined if all are granted. */
  readonly problem: string | undefined;
}

/**
 * The endpoints within the networks that a member was granted. Those outside are left out, so that one of them does not
 * affect the others. A grant that cannot be parsed grants nothing, because its author meant to restrict something.
 *
 * @param granted - Comma-separated networks; null: none; undefined: any.
 */
export function withinGrant<T extends Pick<EndpointSliceExportSpec, "endpoints">>(
  spec: T,
  granted: string | null | undefined,
): Granted<T> {
  if (granted === undefined) return { spec, problem: undefined };
  if (granted === null)
    return {
      spec: { ...spec, endpoints: [] },
      problem:
        "the member has no fleet addresses, and pods of other members have the same addresses as its own",
    };
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
