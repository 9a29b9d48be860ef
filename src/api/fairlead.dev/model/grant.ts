import { tryParseAddress } from "#netaddr/address.ts";
import { containsAddress, type Prefix, tryParsePrefix } from "#netaddr/prefix.ts";
import type { EndpointSliceExportSpec } from "../../networking.fleet.azure.com/v1alpha1/types.ts";
import { GRANTED_CIDRS_ANNOTATION } from "../names.ts";

/**
 * The endpoint that a member has no right to, in words; undefined where there is none. A grant that cannot be read grants
 * nothing: who wrote it meant to keep something out.
 *
 * @param granted - Networks with commas between; undefined: any.
 */
export function findStranger(
  { endpoints }: Pick<EndpointSliceExportSpec, "endpoints">,
  granted: string | undefined,
): string | undefined {
  if (granted === undefined) return undefined;
  const networks: Prefix[] = [];
  for (const text of granted.split(",").map((it) => it.trim())) {
    const network = tryParsePrefix(text, { hostBits: "clear" });
    if (network === undefined)
      return `the annotation ${GRANTED_CIDRS_ANNOTATION} of the MemberCluster has ${JSON.stringify(text.slice(0, 60))}, which is no network`;
    networks.push(network);
  }
  for (const { addresses } of endpoints)
    for (const text of addresses) {
      const address = tryParseAddress(text);
      if (address === undefined || !networks.some((it) => containsAddress(it, address)))
        return `${text.slice(0, 60)} is not in ${granted}, which is all that the member may have endpoints in`;
    }
  return undefined;
}
