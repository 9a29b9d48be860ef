import { printText } from "@fairlead/base/print.ts";
import { defined } from "@fairlead/base/defined.ts";
import { parseDuration } from "@fairlead/base/duration.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { describeConditions, type LinkConditions } from "@fairlead/lab/link/conditions.ts";
import { findLink, setConditions } from "@fairlead/lab/link/set.ts";
import { openLab, untilInterrupted } from "./context.ts";
import { lockExisting } from "./faults.ts";
import { inOwnNamespace } from "./user-namespace.ts";

interface LinkOptions {
  readonly name: string;
  readonly mtu?: string;
  readonly delay?: string;
  readonly loss?: string;
  readonly rate?: string;
  readonly dropUdp?: true;
  readonly dropUdpFragments?: true;
  readonly reset?: true;
}

/** Changes the link of a cluster or node, or prints what holds of it. */
export async function link(place: string, options: LinkOptions): Promise<void> {
  const change = parseChange(options);
  if (await inOwnNamespace()) return;
  const signal = untilInterrupted();
  using _lock = await lockExisting(options, signal);
  const lab = openLab(options.name);
  const found = findLink(lab, place);
  const before = lab.state.topology.conditions?.[found.name] ?? {};
  const isChange = options.reset === true || Object.keys(change).length > 0;
  const wanted = options.reset === true ? change : { ...before, ...change };
  const now = isChange ? await setConditions(lab, found, wanted, signal) : before;
  printText(`${found.name}: ${describeConditions(now) || "an ordinary link"}`);
}

function parseChange({ mtu, delay, loss, rate, dropUdp, dropUdpFragments }: LinkOptions): LinkConditions {
  return defined({
    mtu: mtu === undefined ? undefined : parseWhole("--mtu", mtu),
    delayMs: delay === undefined ? undefined : parseDelay(delay),
    lossPercent: loss === undefined ? undefined : parseLoss(loss),
    rateBits: rate === undefined ? undefined : parseRate(rate),
    dropUdp,
    dropUdpFragments,
  });
}

function parseDelay(text: string): number {
  const delayMs = parseDuration(text);
  if (delayMs !== undefined) return delayMs;
  throw new FleetError("OPTION_INVALID", `--delay must be a duration such as 20ms, got ${text}`);
}

function parseLoss(text: string): number {
  if (/^\d{1,3}(?:\.\d{1,4})?%$/.test(text)) return Number(text.slice(0, -1));
  throw new FleetError("OPTION_INVALID", `--loss must be a percentage such as 1% or 0.5%, got ${text}`);
}

const RATE_UNITS: Readonly<Record<string, number>> = { bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9 };

function parseRate(text: string): number {
  const [, count, unit = ""] = /^(\d{1,9})([kmg]?bit)$/.exec(text) ?? [];
  if (count !== undefined) return Number(count) * (RATE_UNITS[unit] ?? 0);
  throw new FleetError("OPTION_INVALID", `--rate must be a rate such as 50mbit or 500kbit, got ${text}`);
}
