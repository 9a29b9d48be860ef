import type { RemoteInfo, Socket } from "node:dgram";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { type LibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import { echoRequest, echoSequence, openPingSocket } from "@fairlead/os/libc/ping-socket.ts";
import { DEAD_MS, PROBE_MS } from "./path-choice.ts";

/** What is probed: an address in `fleet` of another node, over one device. */
export interface EchoTarget {
  readonly id: string;
  readonly device: string;
  /** IPv4. */
  readonly address: string;
}

export interface EchoState {
  /** Whether an answer came within the last second. */
  readonly isAlive: boolean;
  /** Smoothed round trip (RFC 6298); undefined before the first answer. Unit: milliseconds. */
  readonly rttMs: number | undefined;
  /** Share of the last requests without an answer. Range: 0 to 1. */
  readonly loss: number;
}

export interface EchoProbesOptions {
  readonly fleetNetns: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** A target came alive or died. */
  readonly onChange: (target: string, isAlive: boolean) => void;
}

interface Probe {
  target: EchoTarget;
  sequence: number;
  readonly sentAtMs: Map<number, number>;
  answeredAtMs: number;
  isAlive: boolean;
  rttMs: number | undefined;
  loss: number;
}

/** Share of one sample in the smoothed round trip (RFC 6298) and in the loss: the latter is of about the last ten seconds. */
const RTT_SHARE = 1 / 8;
const LOSS_SHARE = 1 / 40;

/**
 * ICMP echo requests through tunnels and between nodes: the kernel of the other side answers, so a program that restarts there is
 * no failure, and a tunnel that passes nothing is one, whatever its handshakes say.
 */
export class EchoProbes implements AsyncDisposable {
  readonly #options: EchoProbesOptions;
  readonly #probes = new Map<string, Probe>();
  readonly #sockets = new Map<string, Socket>();
  readonly #stop = new AbortController();
  #source = "";
  #libc: Promise<LibC | undefined> | undefined;
  #running: Promise<void> | undefined;

  constructor(options: EchoProbesOptions) {
    this.#options = options;
  }

  /** @param source - This node's own fleet address, which is on each device. */
  update(targets: readonly EchoTarget[], source: string): void {
    if (source !== this.#source) this.#closeSockets();
    this.#source = source;
    const wanted = new Map(targets.map((it) => [it.id, it]));
    for (const id of this.#probes.keys()) if (!wanted.has(id)) this.#probes.delete(id);
    for (const [id, target] of wanted) {
      const known = this.#probes.get(id);
      if (known === undefined) this.#probes.set(id, this.#begin(target));
      else known.target = target;
    }
    if (targets.length > 0) this.#running ??= this.#run();
  }

  stateOf(id: string): EchoState {
    const { isAlive = false, rttMs, loss = 0 } = this.#probes.get(id) ?? {};
    return { isAlive, rttMs, loss };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    this.#closeSockets();
  }

  #begin(target: EchoTarget): Probe {
    return {
      target,
      sequence: 0,
      sentAtMs: new Map(),
      answeredAtMs: Number.NEGATIVE_INFINITY,
      isAlive: false,
      rttMs: undefined,
      loss: 0,
    };
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const now = clock.monotonic();
      for (const probe of this.#probes.values()) this.#judge(probe, now);
      for (const probe of this.#probes.values()) await this.#send(probe, now);
      await delay(clock, PROBE_MS, signal).catch(() => {});
    }
  }

  #judge(probe: Probe, now: number): void {
    for (const [sequence, sentAtMs] of probe.sentAtMs)
      if (now - sentAtMs >= DEAD_MS) {
        probe.sentAtMs.delete(sequence);
        probe.loss += (1 - probe.loss) * LOSS_SHARE;
      }
    if (!probe.isAlive || now - probe.answeredAtMs < DEAD_MS) return;
    probe.isAlive = false;
    this.#options.log.warn("a node of the parallel network ceased to answer", { target: probe.target.id });
    this.#options.onChange(probe.target.id, false);
  }

  async #send(probe: Probe, now: number): Promise<void> {
    const socket = await this.#socketOf(probe.target.device);
    if (socket === undefined) return;
    probe.sequence = (probe.sequence + 1) & 0xffff;
    probe.sentAtMs.set(probe.sequence, now);
    // A request that cannot be sent is one without an answer. A ping socket has no ports.
    socket.send(echoRequest(probe.sequence), 1, probe.target.address, (error) => {
      if (error !== null) this.#close(probe.target.device);
    });
  }

  #onReply(device: string, message: Buffer, { address }: RemoteInfo): void {
    const sequence = echoSequence(message);
    if (sequence === undefined) return;
    for (const probe of this.#probes.values()) {
      if (probe.target.device !== device || probe.target.address !== address) continue;
      const sentAtMs = probe.sentAtMs.get(sequence);
      if (sentAtMs === undefined) continue;
      probe.sentAtMs.delete(sequence);
      this.#note(probe, this.#options.clock.monotonic() - sentAtMs);
    }
  }

  #note(probe: Probe, rttMs: number): void {
    const wasAlive = probe.isAlive;
    probe.answeredAtMs = this.#options.clock.monotonic();
    probe.isAlive = true;
    probe.rttMs = probe.rttMs === undefined ? rttMs : probe.rttMs + (rttMs - probe.rttMs) * RTT_SHARE;
    probe.loss -= probe.loss * LOSS_SHARE;
    if (wasAlive) return;
    this.#options.log.info("a node of the parallel network answers", { target: probe.target.id });
    this.#options.onChange(probe.target.id, true);
  }

  async #socketOf(device: string): Promise<Socket | undefined> {
    const known = this.#sockets.get(device);
    if (known !== undefined) return known;
    const { fleetNetns, log } = this.#options;
    this.#libc ??= loadLibC();
    const libc = await this.#libc;
    if (libc === undefined) return undefined;
    try {
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
  }
}
