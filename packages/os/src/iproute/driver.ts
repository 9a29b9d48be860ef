import { defined } from "@fairlead/base/defined.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import { objects, textOf } from "./json.ts";
import type { IpLine } from "./line.ts";
import { deleteLink } from "./lines.ts";
import { parseNextHops } from "./nexthops.ts";
import { type FamilyTexts, type Link, parseGatewayDevices, parseLinks, parseNetwork } from "./parse.ts";
import { parseRules } from "./rules.ts";
import { type ActualNetworkState, diffNetwork, type NetworkState } from "./state.ts";
import { addressWord, deviceWord, netnsWord } from "./words.ts";

export interface IpOptions {
  /** File of the network namespace to work in. Default: that of this process. */
  readonly netns?: string;
  readonly signal: AbortSignal;
}

/** First and last, inclusive. */
export type Range = readonly [first: number, last: number];

export interface NetworkOptions extends IpOptions {
  /** Rules of these priorities are ours. Default: none; rules are not read. */
  readonly rulePriorities?: Range;
  /** Next hops and groups of these ids are ours. Default: none; they are not read. */
  readonly nextHopIds?: Range;
}

/**
 * Runs lines in order, with one process start for each run of lines of one family; the first that fails ends the run, and
 * those before it stay done.
 *
 * @throws {FleetError} `EXEC_FAILED`
 */
export async function runIpLines(lines: readonly IpLine[], options: IpOptions): Promise<void> {
  for (const { flags, batch } of batches(lines))
    await run([...flags, "-batch", "-"], options, `${batch.join("\n")}\n`);
}

/**
 * Deletes a device, if it is there. A look before would prove nothing: the kernel may delete it at any time, as it ends a network
 * namespace, with the links into it, some time after its last user.
 *
 * @throws {FleetError} `EXEC_FAILED` if it cannot be deleted.
 */
export async function deleteDevice(device: string, options: IpOptions): Promise<void> {
  try {
    await runIpLines([deleteLink(device)], options);
  } catch (error) {
    if (!isAbsence(error)) throw error;
  }
}

const IPV6 = "-6 ";

/** `ip -batch` takes the family for all lines. */
function batches(
  lines: readonly string[],
): readonly { readonly flags: readonly string[]; readonly batch: string[] }[] {
  const result: { readonly flags: readonly string[]; readonly batch: string[] }[] = [];
  for (const text of lines) {
    const flags = text.startsWith(IPV6) ? ["-6"] : [];
    const last = result.at(-1);
    const words = flags.length === 0 ? text : text.slice(IPV6.length);
    if (last?.flags.length === flags.length) last.batch.push(words);
    else result.push({ flags, batch: [words] });
  }
  return result;
}

/** All devices of the namespace. */
export async function readLinks(options: IpOptions): Promise<readonly Link[]> {
  return parseLinks(await run(["-N", "-j", "-d", "link", "show"], options));
}

/** Of iproute2, and of the kernel for a device that goes while it is read. */
const ABSENT = /does not exist\.$|Cannot find device|No such device/;

/** One device; undefined if absent. */
export async function readLink(device: string, options: IpOptions): Promise<Link | undefined> {
  try {
    return parseLinks(await run(["-N", "-j", "-d", "link", "show", "dev", deviceWord(device)], options))[0];
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

function isAbsence(error: unknown): boolean {
  return hasCode(error, "EXEC_FAILED") && ABSENT.test(error.message);
}

/**
 * The state of `devices`, and next hops and rules in the ranges, as the kernel has them.
 */
export async function readNetwork(
  devices: Iterable<string>,
  options: NetworkOptions,
): Promise<ActualNetworkState> {
  const { rulePriorities, nextHopIds } = options;
  const names = new Set(devices);
  const [ipv4, ipv6, nextHops] = await Promise.all([
    showFamily("-4", options),
    showFamily("-6", options),
    nextHopIds && run(["-N", "-j", "nexthop", "show"], options),
  ]);
  const isOurRule = isInside(rulePriorities);
  const { nextHops: hops, groups } = parseNextHops(nextHops ?? "", isInside(nextHopIds));
  return {
    ...parseNetwork(ipv4, ipv6, names),
    rules: [...parseRules(ipv4.rules, "IPv4", isOurRule), ...parseRules(ipv6.rules, "IPv6", isOurRule)],
    nextHops: hops,
    nextHopGroups: groups,
  };
}

/** All that `ip` shows of one family, with one process start. */
async function showFamily(flag: "-4" | "-6", options: NetworkOptions): Promise<FamilyTexts> {
  const lines = ["address show", "route show table all", "neighbour show nud permanent", "rule show"];
  const text = await run([flag, "-N", "-j", "-batch", "-"], options, `${lines.join("\n")}\n`);
  const answers = text.split("\n").filter((it) => it !== "");
  const [addresses, routes, neighbours, rules] = answers;
  if (addresses === undefined || routes === undefined || neighbours === undefined || rules === undefined)
    throw new FleetError("EXEC_FAILED", `ip answered ${answers.length} of ${lines.length} questions`);
  return { addresses, routes, neighbours, rules };
}

function isInside(range: Range | undefined): (value: number) => boolean {
  return (value) => range !== undefined && value >= range[0] && value <= range[1];
}

/**
 * Passes after which a difference cannot be repaired. One is nearly always enough; deleting a device's last address of
 * a family removes the neighbours and routes of that family too, which the second pass restores.
 */
const PASSES = 4;

/** Lines of what cannot be repaired that an error shows. */
const MOST_SHOWN = 3;

/** The device by which the kernel sends to an address; undefined without a route. */
export async function routeDeviceTo(address: string, options: IpOptions): Promise<string | undefined> {
  try {
    const [route] = objects(await run(["-j", "route", "get", addressWord(address)], options));
    return textOf(route?.["dev"]);
  } catch (error) {
    if (hasCode(error, "EXEC_FAILED")) return undefined;
    throw error;
  }
}

/** The devices by which routes of any table and family lead to a gateway. */
export async function readGatewayDevices(options: IpOptions): Promise<ReadonlySet<string>> {
  const read = (flag: "-4" | "-6") => run([flag, "-N", "-j", "route", "show", "table", "all"], options);
  const [ipv4, ipv6] = await Promise.all([read("-4"), read("-6")]);
  return new Set([ipv4, ipv6].flatMap((it) => parseGatewayDevices(it)));
}

/**
 * Makes the state of `devices`, and next hops and rules in the ranges, equal to the desired one; changes only differences.
 * Returns the number of applied lines.
 *
 * @throws {FleetError} `EXEC_FAILED` if a line is refused, or if another program reverts a change; `OPTION_INVALID` for a
 *   rule or next hop out of range.
 */
export async function applyNetwork(
  devices: readonly string[],
  desired: NetworkState,
  options: NetworkOptions,
): Promise<number> {
  checkRanges(desired, options);
  let count = 0;
  for (let pass = 0; pass < PASSES; pass++) {
    const actual = await readNetwork(devices, options);
    const lines = diffNetwork(actual, desired);
    if (lines.length === 0) return count;
    await runIpLines(lines, options);
    count += lines.length;
  }
  const left = diffNetwork(await readNetwork(devices, options), desired);
  throw new FleetError(
    "EXEC_FAILED",
    `another program keeps changing the network of ${devices.join(", ")}, or the kernel does not keep it; not as it has to be: ${left.slice(0, MOST_SHOWN).join("; ")}`,
    { retriable: true },
  );
}

function checkRanges(desired: NetworkState, { rulePriorities, nextHopIds }: NetworkOptions): void {
  const ids = [...(desired.nextHops ?? []), ...(desired.nextHopGroups ?? [])].map((it) => it.id);
  const [rules, hops] = [isInside(rulePriorities), isInside(nextHopIds)];
  const wrong = [
    ...(desired.rules ?? []).filter((it) => !rules(it.priority)).map((it) => `rule priority ${it.priority}`),
    ...ids.filter((it) => !hops(it)).map((it) => `next hop id ${it}`),
  ];
  if (wrong.length === 0) return;
  throw new FleetError("OPTION_INVALID", `out of the range of this program: ${wrong.join(", ")}`);
}

async function run(args: readonly string[], options: IpOptions, input?: string): Promise<string> {
  const [command, ...rest] =
    options.netns === undefined
      ? (["ip", ...args] as const)
      : (["nsenter", `--net=${netnsWord(options.netns)}`, "--", "ip", ...args] as const);
  const result = await exec(command, rest, {
    signal: options.signal,
    ...defined({ input }),
  });
  return result.stdout;
}
