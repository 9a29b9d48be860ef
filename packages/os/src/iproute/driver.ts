import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import type { IpLine } from "./lines.ts";
import { type Link, parseLinks, parseNetwork } from "./parse.ts";
import { diffNetwork, type NetworkState } from "./state.ts";
import { netnsWord } from "./words.ts";

export interface IpOptions {
  /** File of the network namespace to work in. Default: that of this process. */
  readonly netns?: string;
  readonly signal: AbortSignal;
}

/**
 * Runs lines in order with one process start; the first that fails ends the run, and those before it stay done.
 *
 * @throws {FleetError} `EXEC_FAILED`
 */
export async function runIpLines(lines: readonly IpLine[], options: IpOptions): Promise<void> {
  if (lines.length === 0) return;
  await ip(["-batch", "-"], options, `${lines.join("\n")}\n`);
}

/** All devices of the namespace. */
export async function readLinks(options: IpOptions): Promise<readonly Link[]> {
  return parseLinks(await ip(["-N", "-j", "-d", "link", "show"], options));
}

/** Addresses, routes and neighbours of `devices` as the kernel has them. */
export async function readNetwork(devices: Iterable<string>, options: IpOptions): Promise<NetworkState> {
  const [addresses, routes4, routes6, neighbours] = await Promise.all([
    ip(["-N", "-j", "address", "show"], options),
    ip(["-N", "-j", "-4", "route", "show", "table", "main"], options),
    ip(["-N", "-j", "-6", "route", "show", "table", "main"], options),
    ip(["-N", "-j", "neighbour", "show", "nud", "permanent"], options),
  ]);
  return parseNetwork({ addresses, routes4, routes6, neighbours }, new Set(devices));
}

/**
 * Passes after which a difference cannot be repaired. One is nearly always enough; deleting a device's last address of
 * a family removes the neighbours and routes of that family too, which the second pass restores.
 */
const PASSES = 4;

/**
 * Makes the state of `devices` equal to the desired one; changes only differences. Returns the number of applied lines.
 *
 * @throws {FleetError} `EXEC_FAILED` if a line is refused, or if another program reverts a change.
 */
export async function applyNetwork(
  devices: readonly string[],
  desired: NetworkState,
  options: IpOptions,
): Promise<number> {
  let count = 0;
  for (let pass = 0; pass < PASSES; pass++) {
    const lines = diffNetwork(await readNetwork(devices, options), desired);
    if (lines.length === 0) return count;
    await runIpLines(lines, options);
    count += lines.length;
  }
  throw new FleetError("EXEC_FAILED", `another program keeps changing the network of ${devices.join(", ")}`, {
    retriable: true,
  });
}

async function ip(args: readonly string[], options: IpOptions, input?: string): Promise<string> {
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
