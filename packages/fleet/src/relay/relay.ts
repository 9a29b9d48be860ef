import { abortable } from "@fairlead/base/abortable.ts";
import { backoffMs } from "@fairlead/base/backoff.ts";
import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Forwarder } from "./forwarder.ts";
import { GatewayKeys, type RelayGateway } from "./gateway-keys.ts";
import { createRelayMeters } from "./meters.ts";
import { type RegistrationChange, RegistrationTable } from "./registration-table.ts";
import { RelaySockets } from "./sockets.ts";

export interface RelayOptions {
  /** X25519, Base64. */
  readonly privateKey: string;
  /** Random, new at each start. */
  readonly secret: Uint8Array;
  readonly basePort: number;
  /** Addresses of this machine to listen on; `0.0.0.0` and `::` are all of a family. */
  readonly listen: readonly string[];
  readonly forwarder: (table: RegistrationTable, sockets: RelaySockets) => Forwarder;
}

export interface Relay extends AsyncDisposable {
  /** The gateways that may use it, all of them. Resolves once their ports are open. */
  setGateways(gateways: Iterable<RelayGateway>): Promise<void>;
}

/** How often expired registrations are looked for, and counters are read. Unit: milliseconds. */
const SWEEP_MS = 10_000;
const RETRY = { initialMs: 50, maxMs: 5000, factor: 2, jitter: 0.2 };
/** WireGuard's datagrams begin with 1 to 4. */
const MAX_WIREGUARD_TYPE = 4;

/** Starts a relay. Disposing it leaves what the kernel forwards as it is. */
export async function startRelay(
  options: RelayOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Relay> {
  const { clock, rng, log } = deps;
  const keys = new GatewayKeys(options.privateKey);
  const table = new RegistrationTable({
    keyOf: (index, epoch) => keys.keyOf(index, epoch),
    secret: options.secret,
    clock,
  });
  const meters = createRelayMeters(deps.metrics, { table, nameOf: (index) => keys.nameOf(index) });
  await using stack = new AsyncDisposableStack();
  stack.use(meters);
  const sockets: RelaySockets = stack.use(
    new RelaySockets({
      ...options,
      log,
      onDatagram(payload, at) {
        const first = payload[0] ?? 0;
        if (first >= 1 && first <= MAX_WIREGUARD_TYPE) {
          forwarder.receive(payload, at);
          return;
        }
        const { result, answer, changes } = table.receive(payload, at);
        meters.control(result);
        const reply = (): void => {
          if (answer !== undefined) sockets.send(answer, at.to, at);
        };
        // The answer to a new registration is sent once it is in force.
        if (changes.length === 0) reply();
        else enqueue(changes, reply);
      },
    }),
  );
  const forwarder = stack.use(options.forwarder(table, sockets));
  table.adopt(await forwarder.adopt(signal));
  if (table.size > 0) log.info("adopted registrations", { registrations: table.size });

  const stop = new AbortController();
  const running = AbortSignal.any([signal, stop.signal]);
  let pending: RegistrationChange[] = [];
  let replies: (() => void)[] = [];
  let wake = Promise.withResolvers<void>();
  let hasGateways = false;

  function enqueue(changes: readonly RegistrationChange[], reply: () => void = () => {}): void {
    if (changes.length === 0) return;
    for (const { before, after } of changes) {
      const of = after ?? before;
      if (of === undefined) continue;
      const detail = { from: keys.nameOf(of.from), to: keys.nameOf(of.to), address: of.source.address };
      log.info(after === undefined ? "a gateway is gone" : "a gateway has registered", detail);
    }
    pending.push(...changes);
    replies.push(reply);
    wake.resolve();
  }

  async function write(): Promise<void> {
    let failures = 0;
    while (!running.aborted) {
      await abortable(wake.promise, running);
      wake = Promise.withResolvers<void>();
      const [changes, written] = [pending, replies];
      [pending, replies] = [[], []];
      try {
        await forwarder.change(changes, running);
        failures = 0;
        for (const reply of written) reply();
      } catch (error) {
        if (running.aborted) return;
        log.error("cannot change what the kernel forwards", { error: messageOf(error) });
        await delay(clock, backoffMs(RETRY, ++failures, rng), running);
        wake.resolve();
      }
    }
  }

  async function sweep(): Promise<void> {
    while (!running.aborted) {
      await delay(clock, SWEEP_MS, running);
      try {
        for (const leg of meters.traffic(await forwarder.traffic(running))) table.touch(leg);
      } catch (error) {
        if (!running.aborted) log.warn("cannot read counters", { error: messageOf(error) });
      }
      // Until the gateways are known, those of adopted registrations are not gone.
      enqueue(table.sweep((index) => !hasGateways || keys.has(index)));
    }
  }

  const loops = [write(), sweep()].map((it) => it.catch(() => {}));
  stack.defer(async () => {
    stop.abort();
    await Promise.all(loops);
  });
  const held = stack.move();
  return {
    async setGateways(gateways) {
      keys.set(gateways);
      hasGateways = true;
      enqueue(table.sweep((index) => keys.has(index)));
      await sockets.keep(keys.indexes);
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}
