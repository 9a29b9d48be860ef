import { type Gateway, wireGuardPort } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { byText } from "@fairlead/base/text.ts";
import type { WireguardDevice, WireguardPeer } from "@fairlead/os/wireguard/state.ts";
import { wireGuardDevice } from "./names.ts";
import type { NodeState } from "./state.ts";

/** WireGuard devices of a gateway. Pure. */

/** This gateway and a remote one, with keys of one epoch: one peer of one device. */
export interface Pair {
  readonly id: string;
  readonly device: string;
  readonly epoch: number;
  readonly plane: number;
  /** UDP port of the device. */
  readonly port: number;
  readonly remote: Gateway["spec"];
  readonly remoteKey: string;
}

/** Private keys of this node by epoch. Base64. */
export type NodeKeys = ReadonlyMap<number, string>;

/**
 * An interval at which no NAT forgets a mapping: RFC 4787 (REQ-5) asks for at least 2 minutes, but 30 s occur. Unit: seconds.
 */
const KEEPALIVE_SECONDS = 20;

export function planPairs(
  { remotes }: Pick<NodeState, "remotes">,
  basePort: number,
  keys: NodeKeys,
): readonly Pair[] {
  const pairs: Pair[] = [];
  for (const remote of remotes)
    for (const { epoch, publicKey } of remote.keys ?? []) {
      if (!keys.has(epoch) || remote.index === undefined) continue;
      const plane = remote.ordinal;
      pairs.push({
        id: `${remote.cluster}/${remote.ordinal}/${epoch}`,
        device: wireGuardDevice(plane, epoch),
        epoch,
        plane,
        port: wireGuardPort(basePort, plane, epoch),
        remote,
        remoteKey: publicKey,
      });
    }
  return pairs.toSorted((a, b) => byText(a.id, b.id));
}

/** What a control datagram says of its pair, before it is authenticated: where it came, the epoch, and the index of the other gateway. */
export function headId(port: number, epoch: number, remote: number): string {
  return `${port} ${epoch} ${remote}`;
}

/** `address:port`, and whether WireGuard is not to leave it. */
export type Endpoint = Required<Pick<WireguardPeer, "endpoint" | "isHeld">>;

interface DevicesPlan {
  readonly pairs: readonly Pair[];
  readonly keys: NodeKeys;
  readonly members: NodeState["members"];
  /** Where a pair is moved; absent: it stays where WireGuard has it. */
  readonly endpoints: ReadonlyMap<string, Endpoint>;
  readonly mtu: number;
}

export function planDevices(plan: DevicesPlan): readonly WireguardDevice[] {
  const devices = new Map<string, WireguardDevice & { readonly peers: WireguardPeer[] }>();
  for (const pair of plan.pairs) {
    const privateKey = plan.keys.get(pair.epoch);
    const block = plan.members.get(pair.remote.cluster);
    if (privateKey === undefined || block === undefined) continue;
    let device = devices.get(pair.device);
    if (device === undefined) {
      device = { name: pair.device, privateKey, listenPort: pair.port, mtu: plan.mtu, peers: [] };
      devices.set(pair.device, device);
    }
    const endpoint = plan.endpoints.get(pair.id);
    device.peers.push({
      publicKey: pair.remoteKey,
      allowedIPs: [...block.ipv4, ...block.ipv6],
      ...(endpoint === undefined ? {} : { ...endpoint, persistentKeepaliveSeconds: KEEPALIVE_SECONDS }),
    });
  }
  return [...devices.values()];
}
