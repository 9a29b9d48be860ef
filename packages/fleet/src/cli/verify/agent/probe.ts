import { Resolver } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { type AddressFamily, canonicalAddress } from "@fairlead/base/netaddr/address.ts";
import { isForbidden } from "@fairlead/os/datagram/socket.ts";
import type { LibC } from "@fairlead/os/libc/libc.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { type Check, type Finding, LEAST_MTU, type ProbePlan, type Target } from "../probes.ts";
import { askByUdp, findMtu, ping } from "./datagrams.ts";
import { echoLarge, greet } from "./tcp.ts";

/** Of one attempt. Unit: milliseconds. */
const ATTEMPT_MS = 2000;
const LARGE_ATTEMPT_MS = 5000;
const RETRY_MS = 250;
const TARGETS_AT_ONCE = 6;
const FAMILIES = ["IPv4", "IPv6"] as const;

type Deps = Pick<RuntimeDeps, "clock"> & { readonly libc: LibC | undefined };

/** What a check found; throws if it failed. */
type Found = Pick<Finding, "detail"> & Partial<Pick<Finding, "mtu" | "status">>;

/** Carries out the plan and reports each finding as soon as it is there. */
export async function probeTargets(
  plan: ProbePlan,
  report: (finding: Finding) => void,
  deps: Deps,
  signal: AbortSignal,
): Promise<void> {
  const own = await awaitFamilies(plan, deps, signal);
  await inParallel(plan.targets, TARGETS_AT_ONCE, async (target) => {
    const all = FAMILIES.flatMap((family) => {
      const of = { target, family, plan, hasFamily: own.has(family) };
      return plan.checks.filter((it) => isPossible(it, of)).map((check) => ({ check, of }));
    });
    await Promise.all(all.map(async ({ check, of }) => report(await probe(check, of, deps, signal))));
  });
}

interface Probed {
  readonly target: Target;
  readonly family: AddressFamily;
  readonly plan: ProbePlan;
  readonly hasFamily: boolean;
}

/** A service has addresses of the importing cluster's families, a pod those of its own. */
function isPossible(check: Check, { target, family }: Probed): boolean {
  const isService = check === "service-tcp" || check === "service-udp" || check === "dns-service";
  return (isService ? target.vips : target.pods)[family] !== undefined;
}

async function probe(check: Check, of: Probed, deps: Deps, signal: AbortSignal): Promise<Finding> {
  const { target, family, plan, hasFamily } = of;
  const about = { to: target.cluster, check, family };
  const needsFamily = !check.startsWith("dns-");
  if (needsFamily && !hasFamily)
    return { ...about, status: "skipped", ms: 0, detail: `this pod has no ${family} address` };
  const endMs = deps.clock.monotonic() + plan.settleMs;
  for (;;) {
    const startedMs = deps.clock.monotonic();
    const ms = (): number => Math.round(deps.clock.monotonic() - startedMs);
    try {
      const found = await attempt(check, of, deps, signal);
      return { ...about, status: "passed", ms: ms(), ...found };
    } catch (error) {
      signal.throwIfAborted();
      if (deps.clock.monotonic() + RETRY_MS > endMs)
        return { ...about, status: "failed", ms: ms(), detail: whyOf(error) };
      await delay(deps.clock, RETRY_MS, signal);
    }
  }
}

function whyOf(error: unknown): string {
  const name = Error.isError(error) ? error.name : "";
  return name === "TimeoutError" || name === "AbortError" ? "no answer in time" : messageOf(error);
}

async function attempt(check: Check, of: Probed, deps: Deps, signal: AbortSignal): Promise<Found> {
  const { target, family } = of;
  const pod = target.pods[family] ?? "";
  const vip = target.vips[family] ?? "";
  const within = (ms: number): AbortSignal => AbortSignal.any([signal, AbortSignal.timeout(ms)]);
  switch (check) {
    case "tcp":
      return greeted(target, await greet(pod, within(ATTEMPT_MS)));
    case "service-tcp":
      return greeted(target, await greet(vip, within(ATTEMPT_MS)));
    case "large":
      await echoLarge(pod, within(LARGE_ATTEMPT_MS));
      return { detail: "" };
    case "dns-service":
      return resolved(await lookUp(target.names.service, family), vip);
    case "dns-pods":
      return resolved(await lookUp(target.names.pods, family), pod);
    default:
      return attemptDatagrams(check, check === "service-udp" ? vip : pod, deps, signal);
  }
}

async function attemptDatagrams(
  check: Check,
  address: string,
  { clock, libc }: Deps,
  signal: AbortSignal,
): Promise<Found> {
  if (libc === undefined)
    return { status: "skipped", detail: "the image has no foreign function interface for sockets" };
  const with_ = { clock, libc };
  if (check === "udp" || check === "service-udp") {
    await askByUdp(address, ATTEMPT_MS, with_, signal);
    return { detail: "" };
  }
  if (check === "icmp") return pinged(address, with_, signal);
  const mtu = await findMtu(address, ATTEMPT_MS, with_, signal);
  if (mtu === undefined || mtu < LEAST_MTU)
    throw new Error(`no packet of ${LEAST_MTU} bytes passes, the largest is ${mtu ?? "unknown"}`);
  return { detail: `${mtu} bytes`, mtu };
}

async function pinged(
  address: string,
  deps: Pick<RuntimeDeps, "clock"> & { readonly libc: LibC },
  signal: AbortSignal,
): Promise<Found> {
  try {
    await ping(address, ATTEMPT_MS, deps, signal);
    return { detail: "" };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return {
      status: "skipped",
      detail: "the pod may not open ICMP sockets (sysctl net.ipv4.ping_group_range)",
    };
  }
}

function greeted(target: Target, said: { readonly cluster: string; readonly peer: string }): Found {
  if (said.cluster !== target.cluster) throw new Error(`the pod of ${said.cluster} answers`);
  return { detail: `seen as ${said.peer}` };
}

async function lookUp(name: string, family: AddressFamily): Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: ATTEMPT_MS, tries: 1 });
  return family === "IPv4" ? await resolver.resolve4(name) : await resolver.resolve6(name);
}

function resolved(found: readonly string[], wanted: string): Found {
  if (!found.map(canonicalAddress).includes(canonicalAddress(wanted)))
    throw new Error(`the answer is ${found.join(", ")}, not ${wanted}`);
  return { detail: found.join(", ") };
}

/** Families that the targets have, as far as this pod has them: a fleet address may come a moment after its start. */
async function awaitFamilies(
  { targets, settleMs }: ProbePlan,
  { clock }: Deps,
  signal: AbortSignal,
): Promise<ReadonlySet<AddressFamily>> {
  const wanted = FAMILIES.filter((family) => targets.some(({ pods }) => pods[family] !== undefined));
  const endMs = clock.monotonic() + settleMs;
  for (;;) {
    const own = ownFamilies();
    if (wanted.every((it) => own.has(it)) || clock.monotonic() + RETRY_MS > endMs) return own;
    await delay(clock, RETRY_MS, signal);
  }
}

/** The families in which this pod has an address that others can answer to. */
function ownFamilies(): ReadonlySet<AddressFamily> {
  const all = Object.values(networkInterfaces()).flatMap((it) => it ?? []);
  const usable = all.filter(({ internal, address }) => !internal && !address.startsWith("fe80:"));
  return new Set(usable.map((it) => it.family));
}
