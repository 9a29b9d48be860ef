import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { ChangeWriter } from "./change-writer.ts";
import type { Forwarder } from "./forwarder.ts";
import { GatewayKeys, type RelayGateway } from "./gateway-keys.ts";
import { createRelayMeters } from "./meters.ts";
import { type Arrived, type Registration, RegistrationTable } from "./registration-table.ts";
import { RelaySockets } from "./sockets.ts";
import { serveTls, VIA_TLS } from "./tls-server.ts";

/** Sends from the port of gateway `from` to where `target` is registered. */
export type Send = (payload: Uint8Array, from: number, target: Registration) => void;

export interface RelayOptions {
  /** X25519, Base64. */
  readonly privateKey: string;
  /** Random, new at each start. */
  readonly secret: Uint8Array;
  readonly basePort: number;
  /** Addresses of this machine to listen on; `0.0.0.0` and `::` are all of a family. */
  readonly listen: readonly string[];
  /** For gateways whose UDP is dropped. Default: not served. */
  readonly tls?: { readonly port: number; readonly cert: string; readonly key: string } | undefined;
  readonly forwarder: (table: RegistrationTable, send: Send) => Forwarder;
}

export interface Relay extends AsyncDisposable {
  /** The gateways that may use it, all of them. Resolves once their ports are open. */
  setGateways(gateways: Iterable<RelayGateway>): Promise<void>;
}

/** How often expired registrations are looked for, and counters are read. Unit: milliseconds. */
const SWEEP_MS = 10_000;
/** WireGuard's datagrams begin with 1 to 4. */
const MAX_WIREGUARD_TYPE = 4;

/** Starts a relay. Disposing it leaves what the kernel forwards as it is. */
export async function startRelay(
  options: RelayOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Relay> {
  const { clock, log } = deps;
  const keys = new GatewayKeys(options.privateKey);
  const table = new RegistrationTable({
    keyOf: (index, epoch) => keys.keyOf(index, epoch),
    exists: (index) => keys.has(index),
    secret: options.secret,
    clock,
  });
  const meters = createRelayMeters(deps.metrics, { table, nameOf: (index) => keys.nameOf(index) });
  await using stack = new AsyncDisposableStack();
  stack.use(meters);
  const writer = new ChangeWriter((changes) => forwarder.change(changes, running), {
    ...deps,
    nameOf: (index) => keys.nameOf(index),
  });
  /** Returns the index of the gateway that sent it; undefined if it is not authentic. */
  function receive(payload: Uint8Array, at: Arrived): number | undefined {
    const first = payload[0] ?? 0;
    if (first >= 1 && first <= MAX_WIREGUARD_TYPE) {
      forwarder.receive(payload, at);
      return undefined;
    }
    const { from, result, answer, changes } = table.receive(payload, at);
    meters.control(result);
    const reply = (): void => {
      if (answer === undefined) return;
      if (at.via === VIA_TLS) tls?.send(answer, at.to, { source: at.source, parity: at.source.port - 1 });
      else sockets.send(answer, at.to, at);
    };
    // The answer to a new registration is sent once it is in force.
    if (changes.length === 0) reply();
    else writer.enqueue(changes, reply);
    for (const { before } of changes) if (before !== undefined) leave(before);
    return from;
  }
  /** A gateway that registers over another connection does not use this one any more. */
  function leave({ via, source: { address } }: Registration): void {
    if (via === VIA_TLS && !table.isUsed(address)) tls?.close(address);
  }
  const sockets: RelaySockets = stack.use(new RelaySockets({ ...options, log, onDatagram: receive }));
  const forwarder = stack.use(
    options.forwarder(table, (payload, from, target) =>
      target.via === VIA_TLS ? tls?.send(payload, from, target) : sockets.send(payload, from, target),
    ),
  );
  table.adopt(await forwarder.adopt(signal));
  if (table.size > 0) log.info("adopted registrations", { registrations: table.size });

  const stop = new AbortController();
  const running = AbortSignal.any([signal, stop.signal]);
  let hasGateways = false;

  async function sweep(): Promise<void> {
    while (!running.aborted) {
      await delay(clock, SWEEP_MS, running);
      try {
        for (const leg of meters.traffic(await forwarder.traffic(running))) table.touch(leg);
      } catch (error) {
        if (!running.aborted) log.warn("cannot read counters", { error: messageOf(error) });
      }
      // Until the gateways are known, those of adopted registrations are not gone.
      writer.enqueue(table.sweep((index) => !hasGateways || keys.has(index)));
    }
  }

  const tls =
    options.tls === undefined
      ? undefined
      : stack.use(
          await serveTls({
            ...options.tls,
            listen: options.listen,
            log,
            onDatagram: (payload, at, binding) => receive(payload, { ...at, binding }),
            onClosed: (address) => writer.enqueue(table.drop(address)),
          }),
        );
  const loops = [writer.run(running), sweep()].map((it) => it.catch(() => {}));
  stack.defer(async () => {
    stop.abort();
    await Promise.all(loops);
  });
  const held = stack.move();
  return {
    async setGateways(gateways) {
      keys.set(gateways);
      hasGateways = true;
      writer.enqueue(table.sweep((index) => keys.has(index)));
      await sockets.keep(keys.indexes);
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}
