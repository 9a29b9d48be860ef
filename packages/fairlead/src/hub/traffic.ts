import { readFileSync } from "node:fs";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { TrafficProvider } from "@fairlead/fleet/hub/traffic-manager/provider.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { HubOptions } from "@fairlead/fleet/hub/hub.ts";
import { createClusterSetProvider } from "@fairlead/fleet/hub/traffic-manager/providers/clusterset.ts";
import { Primary } from "@fairlead/fleet/hub/traffic-manager/providers/rfc2136/exchange.ts";
import { createRfc2136Provider } from "@fairlead/fleet/hub/traffic-manager/providers/rfc2136/provider.ts";
import { parseName } from "@fairlead/dns/wire/name.ts";
import { parseTsigKey } from "@fairlead/dns/wire/tsig.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";

/** Flags of the traffic manager: the same for `fairlead hub` and the original command. */

export interface TrafficFlags {
  readonly trafficProvider: string;
  readonly trafficZone: string;
  readonly trafficTtl: string;
  readonly trafficOwner?: string | undefined;
  readonly trafficPrivateRanges?: string | undefined;
  readonly rfc2136Server?: string | undefined;
  readonly rfc2136KeyFile?: string | undefined;
}

export const TRAFFIC_PROVIDER_FLAG = [
  "--traffic-provider <name>",
  "DNS provider for TrafficManagerProfiles: clusterset (fairlead dns), rfc2136 (another DNS server) or none",
  "clusterset",
] as const;
export const TRAFFIC_ZONE_FLAG = [
  "--traffic-zone <domain>",
  "DNS zone of TrafficManagerProfiles",
  "trafficmanager.clusterset.local",
] as const;
export const TRAFFIC_TTL_FLAG = ["--traffic-ttl <seconds>", "TTL of these records, 1 to 3600", "60"] as const;

export const TRAFFIC_OWNER_FLAG = [
  "--traffic-owner <name>",
  "owner of these names in a shared zone; default: the UID of the hub's kube-system namespace",
] as const;
export const TRAFFIC_PRIVATE_FLAG = [
  "--traffic-private-ranges <cidrs>",
  "private networks with load balancers that the hub checks and publishes, separated by commas, or none; default: all",
] as const;
export const RFC2136_SERVER_FLAG = [
  "--rfc2136-server <host:port>",
  "server for dynamic updates of the zone",
] as const;
export const RFC2136_KEY_FLAG = [
  "--rfc2136-key-file <file>",
  "TSIG key for the updates, in the format of tsig-keygen: hmac-sha256",
] as const;

/** @throws {FleetError} `OPTION_INVALID` */
export function trafficManagerOf(flags: TrafficFlags): HubOptions["trafficManager"] {
  const ttlSeconds = parseWhole("--traffic-ttl", flags.trafficTtl, { min: 1, max: 3600 });
  const zone = parseTrafficZone(flags.trafficZone);
  const common = { ttlSeconds, privateRanges: parseRanges(flags.trafficPrivateRanges) };
  switch (flags.trafficProvider) {
    case "none":
      return undefined;
    case "clusterset":
      return (client, deps) => ({ provider: createClusterSetProvider(client, { zone }, deps), ...common });
    case "rfc2136": {
      const provider = updating(flags, zone);
      return (client, deps) => ({ provider: provider(client, deps), ...common });
    }
    default:
      throw new FleetError(
        "OPTION_INVALID",
        `--traffic-provider must be clusterset, rfc2136 or none, got ${JSON.stringify(flags.trafficProvider)}`,
      );
  }
}

function parseRanges(text: string | undefined): readonly Prefix[] | undefined {
  if (text === undefined || text === "") return undefined;
  if (text === "none") return [];
  return text.split(",").map((it) => {
    const range = tryParsePrefix(it.trim());
    if (range !== undefined) return range;
    throw new FleetError(
      "OPTION_INVALID",
      `--traffic-private-ranges must be networks such as 10.1.0.0/16, or none, got ${JSON.stringify(it)}`,
    );
  });
}

function updating(
  { rfc2136Server, rfc2136KeyFile, trafficOwner }: TrafficFlags,
  zone: string,
): (client: KubeClient, deps: RuntimeDeps) => TrafficProvider {
  if (rfc2136Server === undefined || rfc2136KeyFile === undefined)
    throw new FleetError(
      "OPTION_INVALID",
      "--traffic-provider rfc2136 needs --rfc2136-server and --rfc2136-key-file",
    );
  const server = parseServer(rfc2136Server);
  const key = parseTsigKey(readKey(rfc2136KeyFile));
  const owner = trafficOwner === undefined ? {} : { owner: parseOwner(trafficOwner) };
  return (client, deps) => {
    const primary = new Primary({ ...server, key }, deps.clock);
    return createRfc2136Provider(client, { primary, zone, ...owner }, deps);
  };
}

function readKey(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `cannot read --rfc2136-key-file ${file}`, { cause });
  }
}

function parseServer(text: string): { readonly host: string; readonly port: number } {
  const groups = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:]+))(?::(?<port>\d{1,5}))?$/.exec(text)?.groups ?? {};
  const host = groups["v6"] ?? groups["host"];
  const port = Number(groups["port"] ?? 53);
  if (host !== undefined && port > 0 && port <= 65_535) return { host, port };
  throw new FleetError("OPTION_INVALID", `--rfc2136-server must be host:port, got ${JSON.stringify(text)}`);
}

/** The name is part of a comma-separated text. */
function parseOwner(text: string): string {
  if (/^[\w.-]{1,63}$/.test(text)) return text;
  throw new FleetError(
    "OPTION_INVALID",
    `--traffic-owner must be letters, digits, dots and dashes, at most 63, got ${JSON.stringify(text)}`,
  );
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
