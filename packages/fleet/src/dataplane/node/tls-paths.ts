import { randomBytes } from "node:crypto";
import type { TLSSocket } from "node:tls";
import type { MeshRelay } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { byText } from "@fairlead/base/text.ts";
import { connectRelay } from "../control/connect-relay.ts";
import type { UdpEndpoint } from "../control/datagram.ts";
import { controlKey } from "../control/keys.ts";
import { TcpTunnel } from "../control/tcp-tunnel.ts";
import type { NodeKeys, Pair } from "./devices.ts";

/** How long a pair is without another path before TLS is tried: UDP has had three requests by then, and a second. Unit: milliseconds. */
const WAIT_MS = 1750;
const LOOPBACK = "127.0.0.1";

export interface TlsPathsOptions {
  readonly deps: Pick<RuntimeDeps, "clock" | "rng" | "log">;
  /** A pair can use another endpoint now, or it is time to look again. */
  readonly onChange: () => void;
  /** Default: a TLS connection. */
  readonly connect?: (address: string, port: number, signal: AbortSignal) => Promise<TLSSocket>;
}

interface Flow {
  readonly pair: Pair;
  readonly sinceMs: number;
  readonly timer: Disposable;
  /** Local ports by relay; empty until it is time. */
  readonly ports: Map<string, number>;
  isOpen: boolean;
}

/** The last resort: pairs that no relay answers by UDP are connected by TLS to the relays that serve it. */
export class TlsPaths implements AsyncDisposable {
  readonly #options: TlsPathsOptions;
  readonly #flows = new Map<string, Flow>();
  /** By name and key of the relay. */
  readonly #tunnels = new Map<string, TcpTunnel>();

  constructor(options: TlsPathsOptions) {
    this.#options = options;
  }

  /** @param pairs - Those that have no other path. */
  async update(
    pairs: readonly Pair[],
    own: { readonly index: number; readonly keys: NodeKeys },
    relays: readonly MeshRelay[],
  ): Promise<void> {
    const { clock } = this.#options.deps;
    const serving = new Map(
      relays.flatMap((it) => (it.tlsPort === undefined ? [] : [[relayId(it), it] as const])),
    );
    const wanted = new Map(serving.size === 0 ? [] : pairs.map((it) => [flowId(it, own), it]));
    for (const [id, flow] of this.#flows) if (!wanted.has(id)) await this.#close(id, flow);
    for (const [id, pair] of wanted) {
      const flow = this.#flows.get(id) ?? this.#begin(id, pair);
      if (clock.monotonic() - flow.sinceMs < WAIT_MS) continue;
      for (const [relay, of] of serving) if (!flow.ports.has(relay)) await this.#open(flow, own, of);
      flow.isOpen = true;
    }
    await this.#closeUnused(serving);
  }

  /** The local end of the connection of each pair that a relay has registered: of the first by name. */
  endpoints(): ReadonlyMap<string, UdpEndpoint> {
    const found = new Map<string, UdpEndpoint>();
    for (const { pair, ports } of this.#flows.values())
      for (const [relay, port] of [...ports].toSorted(([a], [b]) => byText(a, b)))
        if (
          !found.has(pair.id) &&
          this.#tunnels.get(relay)?.isRegistered(pair.remote.index ?? 0, pair.epoch) === true
        )
          found.set(pair.id, { address: LOOPBACK, port });
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.update([], { index: 0, keys: new Map() }, []);
  }

  async #closeUnused(serving: ReadonlyMap<string, MeshRelay>): Promise<void> {
    const isUsed = [...this.#flows.values()].some((it) => it.isOpen);
    for (const [id, tunnel] of this.#tunnels) {
      if (isUsed && serving.has(id)) continue;
      this.#tunnels.delete(id);
      for (const { ports } of this.#flows.values()) ports.delete(id);
      await tunnel[Symbol.asyncDispose]();
    }
  }

  #begin(id: string, pair: Pair): Flow {
    const { deps, onChange } = this.#options;
    const timer = deps.clock.after(WAIT_MS, onChange);
    const flow = {
      pair,
      sinceMs: deps.clock.monotonic(),
      timer,
      ports: new Map<string, number>(),
      isOpen: false,
    };
    this.#flows.set(id, flow);
    return flow;
  }

  async #open(
    { pair, ports }: Flow,
    own: { readonly index: number; readonly keys: NodeKeys },
    relay: MeshRelay,
  ): Promise<void> {
    try {
      const key = controlKey("relay", own.keys.get(pair.epoch) ?? "", relay.publicKey);
      const { remote, epoch, port: wireGuardPort } = pair;
      const flow = { from: own.index, to: remote.index ?? 0, epoch, key, wireGuardPort };
      ports.set(relayId(relay), await this.#tunnelTo(relay).open(flow));
    } catch (error) {
      this.#options.deps.log.warn("cannot use a relay over TLS", {
        relay: relay.name,
        error: messageOf(error),
      });
    }
  }

  #tunnelTo(relay: MeshRelay): TcpTunnel {
    const { deps, onChange, connect = connectRelay } = this.#options;
    const { addresses, tlsPort = 0, name } = relay;
    const before = this.#tunnels.get(relayId(relay));
    if (before !== undefined) return before;
    let attempt = 0;
    const made = new TcpTunnel(
      {
        // Another address each time.
        connect: (signal) => connect(addresses[attempt++ % addresses.length] ?? "", tlsPort, signal),
        nonce: () => randomBytes(16),
        onChange,
      },
      deps,
    );
    this.#tunnels.set(relayId(relay), made);
    deps.log.info("a relay is used over TLS: it does not answer by UDP", { relay: name });
    return made;
  }

  async #close(id: string, { pair, timer, ports }: Flow): Promise<void> {
    this.#flows.delete(id);
    timer[Symbol.dispose]();
    for (const relay of ports.keys())
      await this.#tunnels.get(relay)?.close(pair.remote.index ?? 0, pair.epoch);
  }
}

function relayId({ name, addresses, tlsPort, publicKey }: MeshRelay): string {
  return [name, publicKey, tlsPort, ...addresses].join(" ");
}

function flowId(pair: Pair, own: { readonly index: number; readonly keys: NodeKeys }): string {
  return [pair.id, pair.remote.index, pair.port, own.index, own.keys.get(pair.epoch)].join(" ");
}
