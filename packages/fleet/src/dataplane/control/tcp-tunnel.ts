import type { KeyObject } from "node:crypto";
import { createSocket, type Socket } from "node:dgram";
import type { TLSSocket } from "node:tls";
import { backoffMs } from "@fairlead/base/backoff.ts";
import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { ControlHead } from "./datagram.ts";
import { bindingOf, boundKey, type Frame, FrameReader, FrameWriter } from "./frames.ts";
import { RelayRegistration } from "./registration.ts";

/** One tunnel through the connection: a remote gateway and an epoch. */
export interface TunnelFlow extends ControlHead {
  /** `controlKey("relay", own private key of the epoch, public key of the relay)`. */
  readonly key: KeyObject;
  /** Port of the WireGuard device, on this machine. */
  readonly wireGuardPort: number;
}

export interface TcpTunnelOptions {
  /** A new TLS connection to the relay (`connectRelay`). */
  readonly connect: (signal: AbortSignal) => Promise<TLSSocket>;
  /** 16 random bytes, different at each call. */
  readonly nonce: () => Uint8Array;
  /** A flow was registered, or is no longer. */
  readonly onChange?: () => void;
}

interface OpenFlow {
  readonly flow: TunnelFlow;
  readonly socket: Socket;
  /** Undefined while there is no connection. */
  registration: RelayRegistration | undefined;
  registeredAtMs: number;
}

const RECONNECT = { initialMs: 500, maxMs: 30_000, factor: 2, jitter: 0.2 };
const LOOPBACK = "127.0.0.1";
/** How often flows without an answer are registered, and all are looked at. Unit: milliseconds. */
const TICK_MS = 1000;
/** As gateways renew by UDP. Unit: milliseconds. */
const RENEW_MS = 15_000;

/**
 * The gateway's side of the last resort, where UDP is dropped: WireGuard sends to a port of this machine, and its datagrams
 * are forwarded over a TLS connection to a relay. A connection that is too slow drops datagrams: the tunnel inside has its own
 * congestion control, and a queue would only add delay.
 */
export class TcpTunnel implements AsyncDisposable {
  readonly #options: TcpTunnelOptions;
  readonly #deps: Pick<RuntimeDeps, "clock" | "rng" | "log">;
  readonly #flows = new Map<number, OpenFlow>();
  readonly #stop = new AbortController();
  #connection: { readonly writer: FrameWriter; readonly binding: Uint8Array } | undefined;
  readonly #running: Promise<unknown>;

  constructor(options: TcpTunnelOptions, deps: Pick<RuntimeDeps, "clock" | "rng" | "log">) {
    this.#options = options;
    this.#deps = deps;
    this.#running = Promise.allSettled([this.#stayConnected(), this.#renew()]);
  }

  /** Opens a flow. Returns the port on 127.0.0.1 that WireGuard is to have as its endpoint. */
  async open(flow: TunnelFlow): Promise<number> {
    const tag = tagOf(flow.to, flow.epoch % 2);
    await this.close(flow.to, flow.epoch);
    const socket = createSocket({
      type: "udp4",
      recvBufferSize: 1 << 20,
      sendBufferSize: 1 << 20,
      lookup: asIs,
    });
    socket.on("error", (error) => this.#deps.log.warn("a socket failed", { error: messageOf(error) }));
    socket.on("message", (payload, { port }) => {
      // From WireGuard, not from another program of this machine.
      if (port !== flow.wireGuardPort) return;
      this.#connection?.writer.write({ index: flow.to, parity: flow.epoch % 2, payload });
    });
    const open: OpenFlow = { flow, socket, registration: undefined, registeredAtMs: -RENEW_MS };
    this.#flows.set(tag, open);
    await new Promise<void>((resolve) => {
      socket.bind(0, LOOPBACK, resolve);
    });
    this.#register(open);
    return socket.address().port;
  }

  async close(to: number, epoch: number): Promise<void> {
    const tag = tagOf(to, epoch % 2);
    const open = this.#flows.get(tag);
    if (open === undefined) return;
    this.#flows.delete(tag);
    await new Promise<void>((resolve) => {
      open.socket.close(() => resolve());
    });
  }

  /** Whether the relay forwards to this flow. */
  isRegistered(to: number, epoch: number): boolean {
    const open = this.#flows.get(tagOf(to, epoch % 2));
    return open?.registration !== undefined && open.registeredAtMs >= 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    for (const { flow } of this.#flows.values()) await this.close(flow.to, flow.epoch);
    await this.#running;
  }

  async #stayConnected(): Promise<void> {
    const { clock, rng, log } = this.#deps;
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        const socket = await this.#options.connect(signal);
        failures = 0;
        await this.#serve(socket);
        log.info("the connection to the relay has ended");
      } catch (error) {
        if (!signal.aborted) log.warn("cannot connect to the relay", { error: messageOf(error) });
      }
      await delay(clock, backoffMs(RECONNECT, failures, rng), signal);
    }
  }

  /** Resolves when the connection ends. */
  async #serve(socket: TLSSocket): Promise<void> {
    using _ended = onAbort(this.#stop.signal, () => socket.destroy());
    const reader = new FrameReader();
    socket.on("data", (chunk: Buffer) => {
      const frames = reader.read(chunk);
      if (frames === undefined) socket.destroy();
      for (const frame of frames ?? []) this.#receive(frame);
    });
    socket.on("error", (error: Error) =>
      this.#deps.log.warn("the connection to the relay failed", { error: error.message }),
    );
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    this.#connection = { writer: new FrameWriter(socket), binding: bindingOf(socket) };
    for (const open of this.#flows.values()) this.#register(open);
    await closed;
    this.#connection = undefined;
    for (const open of this.#flows.values()) open.registration = undefined;
    this.#options.onChange?.();
  }

  #register(open: OpenFlow): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    const { nonce } = this.#options;
    const { from, to, epoch } = open.flow;
    if (open.registration === undefined) {
      open.registeredAtMs = -RENEW_MS;
      const key = boundKey(open.flow.key, connection.binding);
      open.registration = new RelayRegistration({ from, to, epoch, key, nonce });
    }
    this.#send(open, open.registration.request());
  }

  #receive({ index, parity, payload }: Frame): void {
    const open = this.#flows.get(tagOf(index, parity));
    if (open === undefined) return;
    const first = payload[0] ?? 0;
    if (first >= 1 && first <= 4) {
      open.socket.send(payload, open.flow.wireGuardPort, LOOPBACK, () => {});
      return;
    }
    const answer = open.registration?.receive(payload);
    if (answer === undefined) return;
    if ("send" in answer) this.#send(open, answer.send);
    else {
      const isNew = open.registeredAtMs < 0;
      open.registeredAtMs = this.#deps.clock.monotonic();
      if (isNew) this.#options.onChange?.();
    }
  }

  #send({ flow }: OpenFlow, payload: Uint8Array): void {
    this.#connection?.writer.write({
      index: flow.to,
      parity: flow.epoch % 2,
      payload: Buffer.from(payload),
    });
  }

  async #renew(): Promise<void> {
    const { clock } = this.#deps;
    for (;;) {
      await delay(clock, TICK_MS, this.#stop.signal);
      const now = clock.monotonic();
      for (const open of this.#flows.values())
        if (open.registeredAtMs < 0 || now - open.registeredAtMs >= RENEW_MS) this.#register(open);
    }
  }
}

function tagOf(index: number, parity: number): number {
  return 2 * index + parity;
}

function onAbort(signal: AbortSignal, callback: () => void): Disposable {
  signal.addEventListener("abort", callback);
  if (signal.aborted) callback();
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", callback) };
}

/** Destinations are addresses: Node would ask for each of them in another turn of its loop. */
function asIs(
  host: string,
  _options: unknown,
  callback: (error: null, address: string, family: number) => void,
): void {
  callback(null, host, 4);
}
