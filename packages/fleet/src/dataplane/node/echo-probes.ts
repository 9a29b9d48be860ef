import type { RemoteInfo, Socket } from "node:dgram";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { type DeviceCounters, openDeviceCounters } from "@fairlead/os/libc/device-counters.ts";
import { type LibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import { echoRequest, echoSequence, openPingSocket } from "@fairlead/os/libc/ping-socket.ts";
import { Liveness, RunningTime } from "./liveness.ts";
import { PROBE_MS } from "./path-choice.ts";
import { PathMtu } from "./path-mtu.ts";
import { TargetUse } from "./target-use.ts";

/** What is probed: an address in `fleet` of another node, over one device. */
export interface EchoTarget {
  readonly id: string;
  readonly device: string;
  /** IPv4. */
  readonly address: string;
  /** Of a tunnel: the MTU of its device, and the path that it takes. Its own MTU is found by probing. */
  readonly tunnel?: { readonly mtu: number; readonly path: string };
}

export interface EchoState {
  /** Whether it answers. */
  readonly isAlive: boolean;
  /** Whether it does so again, if not for long enough to be alive. */
  readonly isAnswering: boolean;
  /** Smoothed round trip (RFC 6298); undefined before the first answer. Unit: milliseconds. */
  readonly rttMs: number | undefined;
  /** Share of the last requests without an answer. Range: 0 to 1. */
  readonly loss: number;
  /** Of a tunnel. Unit: bytes. */
  readonly mtu: number | undefined;
}

export interface EchoProbesOptions {
  readonly fleetNetns: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** A target answers, died, or has another MTU. */
  readonly onChange: (target: string, hasDied: boolean) => void;
  /** Bytes that tunnels have sent and received, by target. */
  readonly bytes: () => Promise<ReadonlyMap<string, number>>;
}

interface Probe {
  target: EchoTarget;
  sequence: number;
  readonly liveness: Liveness;
  readonly mtu: PathMtu | undefined;
}

/** Of a header without options. */
const IPV4_BYTES = 20;

function addressId({ device, address }: Pick<EchoTarget, "device" | "address">): string {
  return `${device} ${address}`;
}

function createProbe(target: EchoTarget): Probe {
  const mtu = target.tunnel === undefined ? undefined : new PathMtu(target.tunnel.mtu);
  return { target, sequence: 0, liveness: new Liveness(), mtu };
}

/**
 * ICMP echo requests through tunnels and between nodes: the kernel of the other side answers, so a program that restarts there is
 * no failure, and a tunnel that passes nothing is one, whatever its handshakes say. Targets in use, and those in doubt, are probed
 * often.
 */
export class EchoProbes implements AsyncDisposable {
  readonly #options: EchoProbesOptions;
  readonly #probes = new Map<string, Probe>();
  /** By device and address. */
  #byAddress: ReadonlyMap<string, readonly Probe[]> = new Map();
  readonly #sockets = new Map<string, Socket>();
  readonly #stop = new AbortController();
  readonly #time = new RunningTime();
  readonly #use: TargetUse;
  #counters: DeviceCounters | undefined;
  #looking: Promise<void> | undefined;
  #source = "";
  #libc: Promise<LibC | undefined> | undefined;
  #running: Promise<void> | undefined;

  constructor(options: EchoProbesOptions) {
    this.#options = options;
    this.#use = new TargetUse({ packets: () => this.#counters?.read() ?? new Map(), bytes: options.bytes });
  }

  /** @param source - This node's own fleet address, which is on each device. */
  update(targets: readonly EchoTarget[], source: string): void {
    if (source !== this.#source) this.#closeSockets();
    this.#source = source;
    const wanted = new Map(targets.map((it) => [it.id, it]));
    for (const id of this.#probes.keys()) if (!wanted.has(id)) this.#probes.delete(id);
    for (const [id, target] of wanted) {
      const known = this.#probes.get(id);
      if (known === undefined) this.#probes.set(id, createProbe(target));
      else known.target = target;
      if (target.tunnel !== undefined) this.#probes.get(id)?.mtu?.use(target.tunnel.path);
    }
    this.#byAddress = Map.groupBy(this.#probes.values(), (it) => addressId(it.target));
    if (targets.length > 0) this.#running ??= this.#run();
  }

  stateOf(id: string): EchoState {
    const { liveness, mtu } = this.#probes.get(id) ?? {};
    const { isAlive = false, isAnswering = false, rttMs, loss = 0 } = liveness ?? {};
    return { isAlive, isAnswering, rttMs, loss, mtu: mtu?.mtu };
  }

  /** Bytes of tunnels that were read for another purpose, by target. */
  noteBytes(bytes: ReadonlyMap<string, number>): void {
    this.#use.note(bytes, this.#time.at(this.#options.clock.monotonic()));
  }

  /** Whether it carries traffic. */
  isUsed(id: string): boolean {
    return this.#use.isUsed(id, this.#time.at(this.#options.clock.monotonic()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#looking;
    this.#closeSockets();
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const now = this.#time.turn(clock.monotonic());
      for (const { target, liveness } of this.#probes.values())
        if (liveness.judge(now)) {
          this.#options.log.warn("a node of the parallel network ceased to answer", { target: target.id });
          this.#options.onChange(target.id, true);
        }
      // A tunnel's process that hangs must not hold up probes.
      this.#looking ??= this.#look(now).finally(() => (this.#looking = undefined));
      for (const probe of this.#probes.values()) await this.#probe(probe, now);
      await delay(clock, PROBE_MS, signal).catch(() => {});
    }
  }

  async #look(now: number): Promise<void> {
    try {
      await this.#use.look(
        [...this.#probes.values()].map((it) => it.target),
        now,
      );
    } catch (error) {
      this.#options.log.debug("cannot read the traffic of tunnels", { error: messageOf(error) });
    }
  }

  async #probe(probe: Probe, now: number): Promise<void> {
    const { liveness, mtu, target } = probe;
    const isUsed = this.#use.isUsed(target.id, now);
    if (liveness.isDue(now, isUsed)) await this.#send(probe, (request) => liveness.sent(request, now));
    if (mtu === undefined) return;
    const view = { nowMs: now, isUsed, isAlive: liveness.isAlive, rttMs: liveness.rttMs ?? 0 };
    if (mtu.judge(view)) {
      this.#options.log.info("a tunnel has another MTU", { target: target.id, mtu: mtu.mtu });
      this.#options.onChange(target.id, false);
    }
    for (const size of mtu.due(view))
      await this.#send(probe, (request) => mtu.sent(request, size, now), size - IPV4_BYTES);
  }

  async #send(probe: Probe, note: (request: number) => void, bytes?: number): Promise<void> {
    const { device, address } = probe.target;
    const socket = await this.#socketOf(device);
    if (socket === undefined) return;
    probe.sequence = (probe.sequence + 1) & 0xffff;
    note(probe.sequence);
    // A request that cannot be sent is one without an answer. A ping socket has no ports.
    socket.send(echoRequest(probe.sequence, bytes), 1, address, (error) => {
      if (error !== null) this.#close(device);
    });
  }

  #onReply(device: string, message: Buffer, { address }: RemoteInfo): void {
    const sequence = echoSequence(message);
    if (sequence === undefined) return;
    const now = this.#time.at(this.#options.clock.monotonic());
    for (const { target, liveness, mtu } of this.#byAddress.get(addressId({ device, address })) ?? []) {
      mtu?.answered(sequence, message.length + IPV4_BYTES);
      const wasAnswering = liveness.isAnswering;
      if (liveness.answered(sequence, now))
        this.#options.log.info("a node of the parallel network answers", { target: target.id });
      else if (wasAnswering || !liveness.isAnswering) continue;
      this.#options.onChange(target.id, false);
    }
  }

  async #socketOf(device: string): Promise<Socket | undefined> {
    const known = this.#sockets.get(device);
    if (known !== undefined) return known;
    const { fleetNetns, log } = this.#options;
    this.#libc ??= loadLibC();
    const libc = await this.#libc;
    if (libc === undefined) return undefined;
    try {
      this.#counters ??= openDeviceCounters(libc, fleetNetns);
      const socket = await openPingSocket(libc, { netns: fleetNetns, device, address: this.#source });
      socket.on("message", (message, from) => this.#onReply(device, message, from));
      // The device may have been recreated: then the socket has to be, too.
      socket.on("error", () => this.#close(device));
      this.#sockets.set(device, socket);
      return socket;
    } catch (error) {
      log.debug("cannot probe over a device", { device, error: messageOf(error) });
      return undefined;
    }
  }

  #close(device: string): void {
    const socket = this.#sockets.get(device);
    this.#sockets.delete(device);
    socket?.close();
  }

  #closeSockets(): void {
    for (const device of this.#sockets.keys()) this.#close(device);
    this.#counters?.[Symbol.dispose]();
    this.#counters = undefined;
  }
}
