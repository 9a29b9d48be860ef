import { lookup, Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { delay } from "@fairlead/base/clock.ts";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";

export interface DnsCheck {
  /** The zone of the cluster set. */
  readonly zone: string;
  /** All who are asked: addresses or names, with a port or without. Undefined: the servers of this machine or pod. */
  readonly servers: readonly (string | undefined)[];
  /** Whether none of them is to answer for the zone any more. */
  readonly isGone: boolean;
  /** A name that has to resolve as well: by each server that is named, else by the machine or pod; by its search path in both cases. */
  readonly name: string | undefined;
  /** How long it is tried again. Unit: milliseconds. */
  readonly timeoutMs: number;
}

const ATTEMPT = { timeout: 2000, tries: 2 } as const;
/** Between attempts. Unit: milliseconds. */
const RETRY_MS = 1000;

/**
 * Asks for the version record that every server of a cluster set has (KEP-1645: `dns-version`), until all have it, or none.
 *
 * @throws {FleetError} `TIMED_OUT` with the last answer.
 */
export async function checkDns(
  check: DnsCheck,
  deps: Pick<RuntimeDeps, "clock">,
  signal: AbortSignal,
): Promise<string> {
  const endMs = deps.clock.monotonic() + check.timeoutMs;
  for (;;) {
    try {
      return await attempt(check);
    } catch (error) {
      signal.throwIfAborted();
      if (deps.clock.monotonic() + RETRY_MS > endMs)
        throw new FleetError("TIMED_OUT", messageOf(error), { cause: error });
      await delay(deps.clock, RETRY_MS, signal);
    }
  }
}

async function attempt({ zone, servers, name, isGone }: DnsCheck): Promise<string> {
  const versions = await Promise.all(servers.map((server) => ask(zone, server, isGone)));
  if (name !== undefined) await Promise.all(servers.map((server) => find(name, server)));
  return [...new Set(versions)].join(" ");
}

async function find(name: string, server: string | undefined): Promise<void> {
  try {
    if (server === undefined) await lookup(name);
    else await findBy(await resolverOf(server), name);
  } catch (cause) {
    throw new Error(`${server ?? "the DNS of this machine"} does not resolve ${name}: ${messageOf(cause)}`, {
      cause,
    });
  }
}

/** Resolves the name as written, or else in each domain of the search path of this machine or pod, as programs there do. */
async function findBy(resolver: Resolver, name: string): Promise<void> {
  const domains = name.endsWith(".") ? [] : await searchPath();
  const names = [name, ...domains.map((it) => `${name}.${it}`)];
  const asked = names.flatMap((it) => [resolver.resolve4(it), resolver.resolve6(it)]);
  await Promise.any(asked).catch((error: unknown) => {
    throw error instanceof AggregateError ? error.errors[0] : error;
  });
}

const RESOLV_CONF = "/etc/resolv.conf";

/** The last `search` line counts (resolv.conf(5)). */
async function searchPath(): Promise<readonly string[]> {
  const text = await readFile(RESOLV_CONF, "utf8").catch(() => "");
  const lines = text.split("\n").map((it) => it.split(/[ \t]/).filter((word) => word !== ""));
  return lines.findLast(([keyword]) => keyword === "search")?.slice(1) ?? [];
}

async function resolverOf(server: string | undefined): Promise<Resolver> {
  const resolver = new Resolver(ATTEMPT);
  if (server !== undefined) resolver.setServers([await addressOf(server)]);
  return resolver;
}

/** The answers of a server that does not know a zone. A timeout is not one of them. */
const UNKNOWN_ZONE = new Set<unknown>(["ENOTFOUND", "ENODATA", "ESERVFAIL", "EREFUSED"]);

/** By the codes of the resolver. */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens at its port; check that its pods run, or pass another server",
  ETIMEOUT: "no answer in time; check that packets of UDP and TCP reach its port",
  ENOTFOUND: 'it does not know the zone; run "fairlead dns setup"',
  ENODATA: 'it does not know the zone; run "fairlead dns setup"',
  EREFUSED: "it refuses the zone",
  ESERVFAIL: "it failed to ask the server of the zone (SERVFAIL); check that its pods run",
};

function whyNot(cause: unknown): string {
  const code = (cause as { readonly code?: unknown }).code;
  return (typeof code === "string" ? REASONS[code] : undefined) ?? messageOf(cause);
}

async function ask(zone: string, server: string | undefined, isGone: boolean): Promise<string> {
  const who = server ?? "the DNS of this machine";
  try {
    const resolver = await resolverOf(server);
    const version = (await resolver.resolveTxt(`dns-version.${zone}`)).flat().join(" ");
    if (!isGone) return version;
  } catch (cause) {
    if (isGone && UNKNOWN_ZONE.has((cause as { code?: unknown }).code)) return "";
    throw new Error(`${who} does not answer for ${zone}: ${whyNot(cause)}`, { cause });
  }
  throw new Error(`${who} still answers for ${zone}`);
}

/** As `setServers` takes it: names are looked up, the port stays. */
async function addressOf(server: string): Promise<string> {
  if (isIP(server) !== 0 || server.startsWith("[")) return server;
  const [host = "", port = "53"] = server.split(":");
  const address = isIP(host) === 0 ? (await lookup(host)).address : host;
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}
