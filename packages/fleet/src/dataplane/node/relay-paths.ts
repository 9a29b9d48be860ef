import { randomBytes } from "node:crypto";
import type { MeshRelay } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { byText } from "@fairlead/base/text.ts";
import { headOf, type UdpEndpoint } from "../control/datagram.ts";
import { controlKey } from "../control/keys.ts";
import { RelayRegistration } from "../control/registration.ts";
import type { ControlPorts } from "./control-ports.ts";
import { type NodeKeys, headId, type Pair } from "./devices.ts";
import { isSameEndpoint } from "./path-choice.ts";

/** How often a registration is renewed: more often than NATs forget mappings (30 s occur). Unit: milliseconds. */
const RENEW_MS = 15_000;
/** Waits for an answer: the first, and the longest. Unit: milliseconds. */
const RETRY_MS = { first: 250, longest: 4000 };
/** Requests without an answer after which the relay's next address is tried. */
const TRIES = 3;

export interface RelayPathsOptions {
  readonly ports: Pick<ControlPorts, "send">;
  readonly clock: Clock;
  readonly log: Logger;
  /** A pair can use another endpoint now. */
  readonly onChange: () => void;
}

interface Registration {
  readonly pair: Pair;
  /** The relay's addresses in the order in which they are tried. A relay keeps one registration of a pair. */
  readonly endpoints: readonly UdpEndpoint[];
  readonly client: RelayRegistration;
  readonly stop: AbortController;
  /** Which address is tried, or in use. */
  at: number;
  /** This gateway's address and port as the relay sees them; undefined while there is no answer. */
  observed: UdpEndpoint | undefined;
  /** The same of the last answer. */
  lastObserved: UdpEndpoint | undefined;
  /** Its tunnel passes nothing, and it has not answered since: another relay is better. */
  isDoubtful: boolean;
  answered: PromiseWithResolvers<void>;
  /** Resolves when it has to be renewed at once. */
  hurry: PromiseWithResolvers<void>;
}

/**
 * Registers each pair of gateways at each relay, from the UDP port of the pair's tunnel, so that the mapping that a NAT makes is that of the
 * tunnel.
 */
export class RelayPaths implements AsyncDisposable {
  readonly #options: RelayPathsOptions;
  /** By pair, relay and address. */
  readonly #registrations = new Map<string, Registration>();
  #byPair: ReadonlyMap<string, readonly Registration[]> = new Map();
  /** By port, epoch and index of the other gateway. */
  #byHead: ReadonlyMap<string, readonly Registration[]> = new Map();
  readonly #runs = new Set<Promise<void>>();

  constructor(options: RelayPathsOptions) {
    this.#options = options;
  }

  update(
    pairs: readonly Pair[],
    own: { readonly index: number; readonly keys: NodeKeys },
    relays: readonly MeshRelay[],
  ): void {
    const wanted = new Map<string, () => Registration | undefined>();
    for (const pair of pairs)
      for (const relay of relays) {
        const port = relay.basePort + (pair.remote.index ?? 0);
        const endpoints = relay.addresses.map((address) => ({ address, port }));
        const key = own.keys.get(pair.epoch);
        const id = [pair.id, own.index, relay.publicKey, port, ...relay.addresses, key].join(" ");
        wanted.set(id, () => this.#createRegistration(pair, endpoints, { own, relay }));
      }
    for (const [id, { stop }] of this.#registrations)
      if (!wanted.has(id)) {
        stop.abort();
        this.#registrations.delete(id);
      }
    const created: Registration[] = [];
    for (const [id, create] of wanted) {
      const registration = this.#registrations.has(id) ? undefined : create();
      if (registration === undefined) continue;
      this.#registrations.set(id, registration);
      created.push(registration);
    }
    const all = [...this.#registrations.values()];
    this.#byPair = Map.groupBy(all, (it) => it.pair.id);
    this.#byHead = Map.groupBy(all, ({ pair }) => headId(pair.port, pair.epoch, pair.remote.index ?? 0));
    for (const it of created) {
      const run = this.#run(it).finally(() => this.#runs.delete(run));
      this.#runs.add(run);
    }
  }

  /** The endpoint of a relay for each pair that is registered at one: of the first by address, so that it does not change by chance. */
  endpoints(): ReadonlyMap<string, UdpEndpoint> {
    const found = new Map<string, UdpEndpoint>();
    for (const id of this.#byPair.keys()) {
      const [first] = this.#registered(id);
      const endpoint = first?.endpoints[first.at];
      if (endpoint !== undefined) found.set(id, endpoint);
    }
    return found;
  }

  /** The pair's relays have to prove that they are there. Those that do not answer are used no longer. */
  verify(pairId: string): void {
    for (const it of this.#registered(pairId)) it.hurry.resolve();
  }

  /** The pair's relay may be gone: another one, if there is, is used until it has answered. */
  suspect(pairId: string): void {
    const [current] = this.#registered(pairId);
    if (current === undefined) return;
    current.isDoubtful = true;
    current.hurry.resolve();
    this.#options.onChange();
  }

  /**
   * The addresses of this gateway that others may use: those of NATs that keep the port. They stay while relays are gone, because direct
   * paths do. Undefined before the first answer.
   */
  publicAddresses(): readonly string[] | undefined {
    const answered = [...this.#registrations.values()].filter((it) => it.lastObserved !== undefined);
    if (answered.length === 0) return undefined;
    const kept = answered.flatMap(({ pair, lastObserved }) =>
      lastObserved?.port === pair.port ? [lastObserved.address] : [],
    );
    return [...new Set(kept)].toSorted(byText);
  }

  /** The registrations of a pair that are answered, in a fixed order. */
  #registered(pairId: string): readonly Registration[] {
    const addressOf = ({ endpoints, at }: Registration): string => endpoints[at]?.address ?? "";
    return (this.#byPair.get(pairId) ?? [])
      .filter((it) => it.observed !== undefined)
      .toSorted((a, b) => Number(a.isDoubtful) - Number(b.isDoubtful) || byText(addressOf(a), addressOf(b)));
  }

  /** A control datagram that arrived at the port of a tunnel. */
  receive(bytes: Uint8Array, port: number, source: UdpEndpoint): void {
    const head = headOf(bytes);
    if (head?.kind !== "challenge" && head?.kind !== "registered") return;
    for (const registration of this.#byHead.get(headId(port, head.epoch, head.to)) ?? []) {
      const at = registration.endpoints.findIndex((it) => isSameEndpoint(it, source));
      if (at < 0 || !this.#take(registration, bytes, source)) continue;
      // Late, when the next address is tried already: both gateways of a pair should have addresses of one family.
      if (registration.at !== at) this.#options.onChange();
      registration.at = at;
      return;
    }
  }

  /** @returns Whether it was the answer to this registration. */
  #take(registration: Registration, bytes: Uint8Array, relay: UdpEndpoint): boolean {
    const { pair, client } = registration;
    const answer = client.receive(bytes);
    if (answer === undefined) return false;
    if ("send" in answer) {
      this.#options.ports.send(pair.port, relay, answer.send);
      return true;
    }
    const isNew = registration.observed === undefined || registration.isDoubtful;
    registration.observed = answer.observed;
    registration.lastObserved = answer.observed;
    registration.isDoubtful = false;
    registration.answered.resolve();
    if (isNew) this.#options.onChange();
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { stop } of this.#registrations.values()) stop.abort();
    this.#registrations.clear();
    await Promise.all(this.#runs);
  }

  #createRegistration(
    pair: Pair,
    endpoints: readonly UdpEndpoint[],
    {
      own,
      relay: { publicKey, name },
    }: {
      readonly own: { readonly index: number; readonly keys: NodeKeys };
      readonly relay: MeshRelay;
    },
  ): Registration | undefined {
    try {
      const client = new RelayRegistration({
        from: own.index,
        to: pair.remote.index ?? 0,
        epoch: pair.epoch,
        key: controlKey("relay", own.keys.get(pair.epoch) ?? "", publicKey),
        nonce: () => randomBytes(16),
      });
      const stop = new AbortController();
      return {
        pair,
        endpoints,
        client,
        stop,
        at: 0,
        observed: undefined,
        lastObserved: undefined,
        isDoubtful: false,
        answered: Promise.withResolvers(),
        hurry: Promise.withResolvers(),
      };
    } catch (error) {
      this.#options.log.warn("cannot use a relay", { relay: name, error: messageOf(error) });
      return undefined;
    }
  }

  async #run(registration: Registration): Promise<void> {
    const { ports, clock } = this.#options;
    const { pair, endpoints, client, stop } = registration;
    const { signal } = stop;
    let failures = 0;
    while (!signal.aborted) {
      const endpoint = endpoints[registration.at];
      if (endpoint === undefined) return;
      registration.answered = Promise.withResolvers();
      ports.send(pair.port, endpoint, client.request());
      const waitMs = Math.min(RETRY_MS.first * 2 ** failures, RETRY_MS.longest);
      const isAnswered = await Promise.race([
        registration.answered.promise.then(() => true),
        // Of a wait that ended late, the answer may be in the socket: it is read before the second one ends.
        delay(clock, waitMs, signal)
          .then(() => delay(clock, 1, signal))
          .then(
            () => false,
            () => false,
          ),
      ]);
      if (isAnswered) {
        failures = 0;
        await Promise.race([registration.hurry.promise, delay(clock, RENEW_MS, signal).catch(() => {})]);
        registration.hurry = Promise.withResolvers();
        if (registration.at > 0) await this.#tryFirst(registration);
        continue;
      }
      failures += 1;
      if (failures % TRIES === 0) this.#tryNext(registration);
    }
  }

  /**
   * The first address may work again. Between gateways that use addresses of different families, the relay's process forwards in place of
   * the kernel.
   */
  async #tryFirst(registration: Registration): Promise<void> {
    const { ports, clock } = this.#options;
    const { pair, endpoints, client, stop } = registration;
    const [first] = endpoints;
    if (first === undefined) return;
    registration.answered = Promise.withResolvers();
    ports.send(pair.port, first, client.request());
    await Promise.race([
      registration.answered.promise,
      delay(clock, RETRY_MS.first, stop.signal).catch(() => {}),
    ]);
  }

  /** A relay that does not answer, at this address at least, does not forward. */
  #tryNext(registration: Registration): void {
    registration.at = (registration.at + 1) % registration.endpoints.length;
    if (registration.observed === undefined) return;
    registration.observed = undefined;
    this.#options.onChange();
  }
}
