import { existsSync } from "node:fs";
import { join } from "node:path";
import { NODE_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  type Gateway,
  GATEWAYS,
  type GatewayCandidate,
  type MeshRelay,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { ApplyResult, WireguardDevices } from "@fairlead/os/wireguard/devices.ts";
import type { WireguardDevice } from "@fairlead/os/wireguard/state.ts";
import { openWireguard } from "@fairlead/os/wireguard/open.ts";
import { nodeAddress } from "../pod-attachment/addresses.ts";
import { ControlPorts } from "./control-ports.ts";
import { type NodeKeys, type Pair, planDevices, planPairs } from "./devices.ts";
import { DirectPaths } from "./direct-paths.ts";
import { TUNNEL_MTU, tunnelTarget } from "./fleet-network.ts";
import { loadKeys, publicKeysOf } from "./keys.ts";
import { isWireGuardDevice } from "./names.ts";
import { type NodePeer, planNodeDevices, planNodePeers } from "./node-peers.ts";
import type { Tunnel } from "./path-report.ts";
import { PathSteering, type SteeringView } from "./path-steering.ts";
import { RelayPaths } from "./relay-paths.ts";
import { SilentPeers } from "./silent-peers.ts";
import type { NodeState } from "./state.ts";
import { TlsPaths } from "./tls-paths.ts";

export interface TunnelsOptions {
  readonly client: KubeClient;
  readonly stateDir: string;
  readonly fleetNetns: string;
  /** Of the processes of wireguard-go; see `WireguardOptions`. */
  readonly cgroup?: string;
  readonly deps: RuntimeDeps;
  /** Whether that target of echo probes carries traffic. */
  readonly isUsed: (target: string) => boolean;
  /** A path came or went: the tunnels are due. */
  readonly onPaths: () => void;
  /** The process of that device has ended. */
  readonly onEnded: (device: string) => void;
}

/**
 * Fleetboard's port. Each gateway of a cluster has 8 of its own, for four planes in two epochs: a NAT that keeps ports can keep those of
 * all gateways behind it.
 */
const FIRST_PORT = 31_820;
const PORTS = 8;

interface OwnGateway {
  readonly index: number;
  readonly ordinal: number;
  readonly keys: NodeKeys;
}

export interface TunnelState {
  readonly pairs: readonly Pair[];
  /** Other nodes of the cluster. */
  readonly peers: readonly NodePeer[];
  /** Names of the WireGuard devices. */
  readonly devices: readonly string[];
  /** Where WireGuard sends, by pair. */
  readonly endpoints: ReadonlyMap<string, string>;
  /** Devices were made: they have no addresses and routes yet. */
  readonly isNew: boolean;
}

/** WireGuard of a node: to the other nodes of its cluster, and on a gateway the tunnels to those of other members. */
export class Tunnels implements AsyncDisposable {
  readonly #options: TunnelsOptions;
  readonly #ports: ControlPorts;
  readonly #relays: RelayPaths;
  readonly #direct: DirectPaths;
  readonly #tls: TlsPaths;
  readonly #steering: PathSteering;
  #lookAgain: Disposable | undefined;
  #devices: WireguardDevices | undefined;
  /** Those that have a device. */
  #pairs: readonly Pair[] = [];
  /** Why peers of a device are left out. */
  readonly #refused = new Map<string, string>();
  readonly #silent = new SilentPeers();

  constructor(options: TunnelsOptions) {
    const { deps, onPaths } = options;
    this.#options = options;
    this.#ports = new ControlPorts({
      log: deps.log,
      onDatagram: (bytes, port, source) => {
        this.#relays.receive(bytes, port, source);
        this.#direct.receive(bytes, port, source);
      },
    });
    this.#relays = new RelayPaths({ ports: this.#ports, ...deps, onChange: onPaths });
    this.#direct = new DirectPaths({
      ports: this.#ports,
      ...deps,
      isUsed: (pair, endpoint) =>
        options.isUsed(tunnelTarget(pair)) && !this.#steering.isElsewhere(pair, endpoint),
      onChange: onPaths,
    });
    this.#tls = new TlsPaths({ deps, onChange: onPaths });
    this.#steering = new PathSteering(deps);
  }

  doubt(): void {
    this.#ports.doubt();
  }

  async apply(state: NodeState, keys: NodeKeys, signal: AbortSignal): Promise<TunnelState> {
    const { gateway, network, block } = state;
    const peers = planNodePeers(state, keys);
    if (gateway === undefined && peers.length === 0) {
      await this.removeAll(signal);
      return { pairs: [], peers, devices: [], endpoints: new Map(), isNew: false };
    }
    const pairs = gateway === undefined ? [] : planPairs(state, basePortOf(gateway), keys);
    const devices = await this.#open(signal);
    await this.#ports.use(new Set(pairs.map((it) => it.port)), signal);
    const { index, ordinal } = gateway?.spec ?? { index: 0, ordinal: 0 };
    if (index !== undefined) await this.#updatePaths(pairs, { index, ordinal, keys }, network.relays ?? []);
    if (this.#pairs.length === 0 && pairs.length > 0) await this.#adopt(pairs, signal);
    const view = this.#view(block.spec.cluster);
    const endpoints = this.#steering.choose(pairs, view);
    for (const id of this.#steering.leftDirect) this.#relays.verify(id);
    const planned = [
      ...planNodeDevices(peers, keys, TUNNEL_MTU),
      ...planDevices({ pairs, keys, members: state.members, endpoints, mtu: TUNNEL_MTU }),
    ];
    const { isNew, found } = await this.#applyDevices(planned, pairs, signal);
    await this.#ports.block(this.#steering.note(pairs, found, view), signal);
    this.#lookLater(this.#steering.lookInMs);
    const wanted = new Set(planned.map((it) => it.name));
    await this.#removeOthers(devices, wanted, signal);
    this.#pairs = pairs.filter((it) => planned.some(({ name }) => name === it.device));
    return { pairs: this.#pairs, peers, devices: planned.map((it) => it.name), endpoints: found, isNew };
  }

  async #updatePaths(pairs: readonly Pair[], own: OwnGateway, relays: readonly MeshRelay[]): Promise<void> {
    this.#relays.update(pairs, own, relays);
    this.#direct.update(pairs, own);
    const answered = this.#relays.endpoints();
    const silent = pairs.filter((it) => !answered.has(it.id) && !this.#direct.isAlive(it));
    await this.#tls.update(silent, own, relays);
  }

  /** @returns `found`: the endpoints that WireGuard had before, by pair. */
  async #applyDevices(
    planned: readonly WireguardDevice[],
    pairs: readonly Pair[],
    signal: AbortSignal,
  ): Promise<{ readonly isNew: boolean; readonly found: ReadonlyMap<string, string> }> {
    const devices = await this.#open(signal);
    const found = new Map<string, string>();
    // A process of wireguard-go takes its time to start: none waits for another one.
    const applied = await Promise.all(
      planned.map(async (device) => ({ device, result: await devices.apply(device, signal) })),
    );
    for (const { device, result } of applied) {
      this.#note(device.name, result);
      for (const pair of pairs) {
        const endpoint = pair.device === device.name ? result.endpoints.get(pair.remoteKey) : undefined;
        if (endpoint !== undefined) found.set(pair.id, endpoint);
      }
      await this.#forgetSilent(device, result, signal);
    }
    return { isNew: applied.some((it) => it.result.isCreated), found };
  }

  /** Peers whose clocks were set back can begin sessions again. */
  async #forgetSilent(
    device: WireguardDevice,
    { received }: ApplyResult,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, log } = this.#options.deps;
    const silent = this.#silent.note(device, received, clock.monotonic());
    if (silent.size === 0) return;
    log.debug("peers were silent: their next handshake counts whatever its time", {
      device: device.name,
      peers: silent.size,
    });
    await this.#devices?.forget(device, silent, signal);
  }

  #view(cluster: string): SteeringView {
    const direct: SteeringView["direct"] = (pair) => this.#direct.of(pair);
    return { cluster, direct, relays: this.#relays.endpoints(), tls: this.#tls.endpoints() };
  }

  /** Tunnels of an earlier agent stay where they are while their paths are looked at. */
  async #adopt(pairs: readonly Pair[], signal: AbortSignal): Promise<void> {
    const found = await this.#readPeers(pairs, signal);
    const endpoints = found.flatMap(({ pair, peer }) =>
      peer?.endpoint === undefined ? [] : [[pair.id, peer.endpoint] as const],
    );
    if (endpoints.length > 0) this.#lookLater(this.#steering.adopt(new Map(endpoints)));
  }

  #lookLater(inMs: number | undefined): void {
    if (inMs === undefined) return;
    const { deps, onPaths } = this.#options;
    this.#lookAgain?.[Symbol.dispose]();
    this.#lookAgain = deps.clock.after(inMs, onPaths);
  }

  /** The tunnels as WireGuard has them. */
  async observe(signal: AbortSignal): Promise<readonly Omit<Tunnel, "echo">[]> {
    const found = await this.#readPeers(this.#pairs, signal);
    if (found.some(({ pair, peer }) => this.#steering.hasStrayed(pair, peer?.endpoint)))
      this.#options.onPaths();
    return found;
  }

  async #readPeers(
    pairs: readonly Pair[],
    signal: AbortSignal,
  ): Promise<readonly { readonly pair: Pair; readonly peer: Tunnel["peer"]; readonly mtu: number }[]> {
    const names = [...new Set(pairs.map((it) => it.device))];
    const devices = new Map(
      await Promise.all(
        names.map(async (name) => {
          const device = await this.#devices?.read(name, signal);
          const peers = new Map(device?.peers.map((it) => [it.publicKey, it]));
          return [name, { mtu: device?.mtu, peers }] as const;
        }),
      ),
    );
    return pairs.map((pair) => {
      const { mtu = TUNNEL_MTU, peers } = devices.get(pair.device) ?? {};
      return { pair, peer: peers?.get(pair.remoteKey), mtu };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#lookAgain?.[Symbol.dispose]();
    await this.#tls[Symbol.asyncDispose]();
    await this.#direct[Symbol.asyncDispose]();
    await this.#relays[Symbol.asyncDispose]();
    await this.#ports[Symbol.asyncDispose]();
    this.#devices?.[Symbol.dispose]();
  }

  async #open(signal: AbortSignal): Promise<WireguardDevices> {
    const { stateDir, fleetNetns, cgroup, deps, onEnded, onPaths } = this.#options;
    this.#devices ??= await openWireguard(
      {
        folder: join(stateDir, "wireguard"),
        netns: fleetNetns,
        clock: deps.clock,
        ...defined({ cgroup }),
        onLost(device) {
          onEnded(device);
          onPaths();
        },
      },
      signal,
    );
    return this.#devices;
  }

  /** Logs what an operator has to know of a device, when it changes. */
  #note(device: string, { isCreated, refused }: ApplyResult): void {
    const { log } = this.#options.deps;
    if (isCreated) log.info("a WireGuard device was made: its sessions start again", { device });
    const reasons = refused.map((it) => it.reason).join("; ");
    if (reasons === (this.#refused.get(device) ?? "")) return;
    this.#refused.set(device, reasons);
    if (reasons !== "") log.warn("peers of a WireGuard device are left out", { device, reasons });
  }

  /** The keys of this node, of that epoch and maybe the one before. */
  loadKeys(epoch: number): Promise<NodeKeys> {
    const { stateDir, deps } = this.#options;
    return loadKeys(join(stateDir, "keys"), epoch, deps.clock.now());
  }

  /** Reports to other gateways what they have to know of this one. */
  async publish({ gateway, block }: NodeState, keys: NodeKeys, signal: AbortSignal): Promise<void> {
    if (gateway === undefined) return;
    const { nodeAddress: address, ipv4 } = block.spec;
    const { name, namespace = "" } = gateway.metadata;
    const known = (gateway.spec.candidates ?? []).filter((it) => it.type === "reflexive");
    const seen = this.#relays.publicAddresses()?.map((it) => ({ type: "reflexive" as const, address: it }));
    const candidates: GatewayCandidate[] = [
      ...(address === undefined ? [] : [{ type: "private" as const, address }]),
      ...(seen ?? known).filter((it) => it.address !== address),
    ];
    await applyIfChanged(this.#options.client, GATEWAYS, {
      current: gateway,
      desired: {
        metadata: { namespace, name },
        spec: {
          keys: publicKeysOf(keys),
          basePort: basePortOf(gateway),
          candidates,
          fleetAddress: nodeAddress(ipv4[0] ?? ""),
        },
      },
      fieldManager: NODE_MANAGER,
      signal,
    });
  }

  /** A tunnel passes nothing: if it goes by a relay, that relay has to prove that it is there. */
  suspect(target: string): void {
    for (const id of this.#steering.of("relay"))
      if (tunnelTarget({ id }) === target) this.#relays.suspect(id);
  }

  /** For a node that has no part in the network any more, or is by itself. Also removes the devices of an earlier agent. */
  async removeAll(signal: AbortSignal): Promise<void> {
    this.#pairs = [];
    await this.#updatePaths([], { index: 0, ordinal: 0, keys: new Map() }, []);
    await this.#ports.use(new Set(), signal);
    if (!existsSync(join(this.#options.stateDir, "wireguard"))) return;
    using devices = await this.#open(signal);
    await this.#removeOthers(devices, new Set(), signal);
    this.#devices = undefined;
  }

  async #removeOthers(
    devices: WireguardDevices,
    wanted: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<void> {
    for (const name of this.#refused.keys()) if (!wanted.has(name)) this.#refused.delete(name);
    this.#silent.retain(wanted);
    for (const name of await devices.list(signal))
      if (isWireGuardDevice(name) && !wanted.has(name)) await devices.remove(name, signal);
  }
}

function basePortOf({ spec: { ordinal } }: Gateway): number {
  return FIRST_PORT + PORTS * ordinal;
}

/** Sent and received, by target. */
export function bytesOf(tunnels: Awaited<ReturnType<Tunnels["observe"]>>): ReadonlyMap<string, number> {
  return new Map(
    tunnels.map(({ pair, peer }) => [tunnelTarget(pair), (peer?.rxBytes ?? 0) + (peer?.txBytes ?? 0)]),
  );
}
