import { readFileSync, watch } from "node:fs";
import { dirname } from "node:path";
import { messageOf } from "@fairlead/base/errors.ts";
import { parseCorefile, zoneOf } from "@fairlead/fleet/cli/dns-setup/corefile.ts";
import { createForward } from "@fairlead/dns/forward.ts";
import { parseSocketAddress, type SocketAddress } from "@fairlead/dns/listen-address.ts";
import type { Forward } from "@fairlead/dns/resolver.ts";
import { foldName, parseName } from "@fairlead/dns/wire/name.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { familyOf, tryParseAddress } from "@fairlead/base/netaddr/address.ts";

/** The forwards in a Corefile: the only part of CoreDNS's configuration that a lab's cluster DNS supports. */

/** The servers that answer for each zone, by `forward . ADDRESS…`. What the root forwards leads out of the lab: nowhere. */
export function forwardsOf(text: string): ReadonlyMap<string, readonly SocketAddress[]> {
  const routes = new Map<string, readonly SocketAddress[]>();
  for (const { keys, directives } of parseCorefile(text).blocks) {
    const servers = directives
      .filter((it) => it.name === "forward")
      .flatMap((it) => it.args.slice(1).flatMap((address) => serverOf(address)));
    const zones = keys.map((it) => zoneOf(it)).filter((it) => it !== ".");
    if (servers.length > 0) for (const zone of zones) routes.set(foldName(parseName(zone)), servers);
  }
  return routes;
}

function serverOf(text: string): readonly SocketAddress[] {
  const address = tryParseAddress(text);
  if (address === undefined) return text.startsWith("/") ? [] : [parseSocketAddress(text)];
  return [parseSocketAddress(familyOf(address) === "IPv6" ? `[${text}]:53` : `${text}:53`)];
}

export interface ForwardsOfFile extends Disposable {
  forwards(): readonly Forward[];
}

/** Follows a Corefile. One that cannot be parsed is logged and changes nothing, as in CoreDNS. */
export function followCorefile(file: string, deps: RuntimeDeps): ForwardsOfFile {
  let text = readFileSync(file, "utf8");
  let forwards = made(text, deps);
  // A ConfigMap's files change by a link in the folder that leads elsewhere.
  const watcher = watch(dirname(file), () => {
    try {
      const now = readFileSync(file, "utf8");
      if (now === text) return;
      text = now;
      forwards = made(now, deps);
      deps.log.info("reloaded the Corefile", { domains: forwards.map((it) => it.domain) });
    } catch (error) {
      deps.log.error("cannot parse the Corefile, keeping the previous one", {
        file,
        error: messageOf(error),
      });
    }
  });
  return { forwards: () => forwards, [Symbol.dispose]: () => watcher.close() };
}

function made(text: string, deps: RuntimeDeps): readonly Forward[] {
  return [...forwardsOf(text)].map(([domain, servers]) => createForward({ domain, servers }, deps));
}
