import { exec } from "@fairlead/base/exec.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { inNetns } from "./netns.ts";

/**
 * Kernel settings by their path below `/proc/sys`, as in `net/ipv4/conf/all/forwarding`: with slashes, since names of
 * devices may hold dots.
 */
export type Sysctls = Readonly<Record<string, string | number>>;

const KEY = /^[A-Za-z0-9_-][A-Za-z0-9_.@-]*(?:\/[A-Za-z0-9_-][A-Za-z0-9_.@-]*)+$/;
const VALUE = /^[A-Za-z0-9 ._:,-]{1,200}$/;

/**
 * Writes settings in the namespace at `netns` (this process's own when undefined), all with one process start.
 *
 * @throws {FleetError} `OPTION_INVALID` for a name or value that cannot be one, `EXEC_FAILED` when the kernel has no
 *   such setting or refuses the value; the ones before it are written then.
 */
export async function writeSysctls(
  netns: string | undefined,
  settings: Sysctls,
  signal: AbortSignal,
): Promise<void> {
  const words = Object.entries(settings).map(([key, value]) => sysctlWord(key, String(value)));
  if (words.length === 0) return;
  const args = ["--quiet", "--write", ...words];
  const line = netns === undefined ? { command: "sysctl", args } : inNetns(netns, "sysctl", args);
  await exec(line.command, line.args, { signal });
}

function sysctlWord(key: string, value: string): string {
  if (KEY.test(key) && VALUE.test(value)) return `${key}=${value}`;
  throw new FleetError(
    "OPTION_INVALID",
    `not a kernel setting: ${JSON.stringify(key)} = ${JSON.stringify(value)}`,
  );
}

/** A namespace that forwards packets between its devices, now and for devices made later. */
export const ROUTER_SYSCTLS: Sysctls = {
  "net/ipv4/ip_forward": 1,
  "net/ipv6/conf/all/forwarding": 1,
  "net/ipv6/conf/default/forwarding": 1,
  // Routes of the lab are asymmetric on purpose (answers may leave by another site link): no reverse-path filter.
  "net/ipv4/conf/all/rp_filter": 0,
  "net/ipv4/conf/default/rp_filter": 0,
  // A next hop whose link is down is skipped, in both families, so that multipath routes fail over by themselves.
  "net/ipv4/conf/all/ignore_routes_with_linkdown": 1,
  "net/ipv4/conf/default/ignore_routes_with_linkdown": 1,
  "net/ipv6/conf/all/ignore_routes_with_linkdown": 1,
  "net/ipv6/conf/default/ignore_routes_with_linkdown": 1,
};

/** IPv6 addresses that work at once (no duplicate detection, no router solicitation): ours come from a plan. */
export const STATIC_IPV6_SYSCTLS: Sysctls = {
  "net/ipv6/conf/all/accept_dad": 0,
  "net/ipv6/conf/default/accept_dad": 0,
  "net/ipv6/conf/all/accept_ra": 0,
  "net/ipv6/conf/default/accept_ra": 0,
};
