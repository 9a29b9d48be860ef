import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import type { AddressFamily } from "@fairlead/base/netaddr/address.ts";
import { routeDeviceTo } from "@fairlead/os/iproute/driver.ts";
import type { LibC } from "@fairlead/os/libc/libc.ts";
import { type EchoSocket, openRawEcho } from "@fairlead/os/libc/raw-echo.ts";
import type { Echo, HostFacts, Origin } from "./host-check.ts";
import { HOST_DEVICE } from "./names.ts";

/** Sends the echo requests of the self-test, and reads what explains a failure. */

/** A request is repeated, and its answer is waited for. Unit: milliseconds. */
const REPEAT_MS = 300;
const TRIES = 3;
const LOOK_MS = 20;
const NONCE_BYTES = 16;

export interface HostProbe {
  readonly libc: LibC;
  readonly clock: Clock;
  readonly fleetNetns: string;
  /** This node's own fleet addresses. */
  readonly own: Readonly<Record<AddressFamily, string>>;
  /** `netns`: file of the network namespace; undefined: that of this process. */
  readonly origins: readonly (Origin & { readonly netns: string | undefined })[];
}

export async function probeHost(probe: HostProbe, signal: AbortSignal): Promise<readonly Echo[]> {
  const families = (["IPv4", "IPv6"] as const).filter((it) => probe.own[it] !== "");
  const all = await Promise.all(families.map((family) => probeFamily(probe, family, signal)));
  return all.flat();
}

interface Pending {
  readonly origin: Origin;
  readonly socket: EchoSocket;
  readonly nonce: Buffer;
  hasArrived: boolean;
  isAnswered: boolean;
}

async function probeFamily(
  { libc, clock, fleetNetns, own, origins }: HostProbe,
  family: AddressFamily,
  signal: AbortSignal,
): Promise<readonly Echo[]> {
  using stack = new DisposableStack();
  const to = own[family];
  const inFleet = stack.use(openRawEcho(libc, { netns: fleetNetns, family }));
  const all = origins.map(({ netns, pod }): Pending => ({
    origin: { pod },
    socket: stack.use(openRawEcho(libc, { netns, family, to })),
    nonce: randomBytes(NONCE_BYTES),
    hasArrived: false,
    isAnswered: false,
  }));
  for (let look = 0; look <= (TRIES * REPEAT_MS) / LOOK_MS; look += 1) {
    const isDue = (look * LOOK_MS) % REPEAT_MS === 0;
    for (const it of all) if (isDue && !it.isAnswered) it.socket.send(it.nonce);
    await delay(clock, LOOK_MS, signal);
    const seen = inFleet.receive().filter((it) => it.kind === "request");
    for (const it of all) {
      it.hasArrived ||= seen.some(({ payload }) => payload.equals(it.nonce));
      it.isAnswered ||= it.socket
        .receive()
        .some(({ kind, payload }) => kind === "reply" && payload.equals(it.nonce));
    }
    if (all.every((it) => it.isAnswered)) break;
  }
  return all.map(({ origin, hasArrived, isAnswered }) => ({
    from: origin,
    family,
    to,
    hasArrived: hasArrived || isAnswered,
    isAnswered,
  }));
}

export async function readHostFacts(own: HostProbe["own"], signal: AbortSignal): Promise<HostFacts> {
  const routeDevice = new Map<AddressFamily, string | undefined>();
  for (const family of ["IPv4", "IPv6"] as const)
    if (own[family] !== "") routeDevice.set(family, await routeDeviceTo(own[family], { signal }));
  const filters = ["all", HOST_DEVICE].flatMap((it) => rpFilterOf(it) ?? []);
  return { routeDevice, rpFilter: filters.length === 0 ? undefined : Math.max(...filters) };
}

/** The kernel takes the larger of both (linux: ip-sysctl, rp_filter). */
function rpFilterOf(device: string): number | undefined {
  try {
    return Number(readFileSync(`/proc/sys/net/ipv4/conf/${device}/rp_filter`, "utf8"));
  } catch {
    return undefined;
  }
}
