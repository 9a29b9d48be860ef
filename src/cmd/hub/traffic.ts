import { FleetError } from "#base/errors.ts";
import type { HubOptions } from "#controllers/hub/hub.ts";
import { createClusterSetProvider } from "#controllers/hub/traffic-manager/providers/clusterset.ts";
import { parseName } from "#dnswire/name.ts";
import { parseWhole } from "../numbers.ts";

/** Flags of the traffic manager: the same for `fairlead hub` and the original command. */

export interface TrafficFlags {
  readonly trafficProvider: string;
  readonly trafficZone: string;
  readonly trafficTtl: string;
}

export const TRAFFIC_PROVIDER_FLAG = [
  "--traffic-provider <name>",
  "who answers names of TrafficManagerProfiles: clusterset (fairlead dns) or none",
  "clusterset",
] as const;
export const TRAFFIC_ZONE_FLAG = [
  "--traffic-zone <domain>",
  "the domain of these names",
  "trafficmanager.clusterset.local",
] as const;
export const TRAFFIC_TTL_FLAG = [
  "--traffic-ttl <seconds>",
  "how long these answers may be kept, 1 to 3600",
  "60",
] as const;

/** @throws {FleetError} `OPTION_INVALID` */
export function trafficManagerOf(flags: TrafficFlags): HubOptions["trafficManager"] {
  const ttlSeconds = parseWhole("--traffic-ttl", flags.trafficTtl, { min: 1, max: 3600 });
  const zone = parseTrafficZone(flags.trafficZone);
  switch (flags.trafficProvider) {
    case "none":
      return undefined;
    case "clusterset":
      return (client, deps) => ({ provider: createClusterSetProvider(client, { zone }, deps), ttlSeconds });
    default:
      throw new FleetError(
        "OPTION_INVALID",
        `--traffic-provider must be clusterset or none, got ${JSON.stringify(flags.trafficProvider)}`,
      );
  }
}

function parseTrafficZone(text: string): string {
  try {
    return parseName(text).replace(/\.$/, "").toLowerCase();
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `--traffic-zone must be a domain, got ${JSON.stringify(text)}`, {
      cause,
    });
  }
}
