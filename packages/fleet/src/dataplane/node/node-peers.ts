import { NODES_BASE_PORT, wireGuardPort } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { byText } from "@fairlead/base/text.ts";
import type { WireguardDevice } from "@fairlead/os/wireguard/state.ts";
import type { NodeKeys } from "./devices.ts";
import { nodesDevice, nodesNumber } from "./names.ts";
import { endpointText } from "./path-choice.ts";
import type { NodeState } from "./state.ts";

/**
 * WireGuard between the nodes of a cluster. Pure.
 *
 * AllowedIPs are exclusive within a device, and packets of other members come from any gateway: each gateway has a device of its own on the
 * other nodes, by its ordinal. Nodes that are not gateways share the device 0, because each of them sends from its own block alone. So
 * WireGuard proves the node of each packet.
 */

/** Another node of the cluster, with keys of one epoch: one peer of one device. */
export interface NodePeer {
  readonly id: string;
  readonly node: string;
  readonly isGateway: boolean;
  readonly epoch: number;
  readonly device: string;
  /** Of the device: see `nodesNumber`. */
  readonly number: number;
  /** UDP port of the device. */
  readonly port: number;
  /** `address:port` of the other node. */
  readonly endpoint: string;
  readonly publicKey: string;
  /** Its block; of a gateway also the prefixes of the other members. */
  readonly allowedIPs: readonly string[];
  /** Its own IPv4 fleet prefix, whose first address answers echo requests. */
  readonly ipv4: string;
}

type View = Pick<NodeState, "block" | "members" | "nodes" | "ordinals">;

/** There is none for a node that has no address, or no key of an epoch of this one: it is not reached. */
export function planNodePeers({ block, members, nodes, ordinals }: View, keys: NodeKeys): NodePeer[] {
  const ownOrdinal = ordinals.get(block.spec.node ?? "") ?? 0;
  const prefixes = [...members.values()].flatMap((it) =>
    it.cluster === block.spec.cluster ? [] : [...it.ipv4, ...it.ipv6],
  );
  const peers = nodes.flatMap((it) => {
    const { node = "", nodeAddress: address, ipv4, ipv6 } = it;
    if (address === undefined) return [];
    const ordinal = ordinals.get(node);
    return it.keys.flatMap(({ epoch, publicKey }): NodePeer[] => {
      if (!keys.has(epoch)) return [];
      const port = (of: number): number => wireGuardPort(NODES_BASE_PORT, of, epoch);
      return [
        {
          id: `${node}/${epoch}`,
          node,
          isGateway: ordinal !== undefined,
          epoch,
          device: nodesDevice(ordinal ?? 0, epoch),
          number: nodesNumber(ordinal ?? 0, epoch),
          port: port(ordinal ?? 0),
          endpoint: endpointText({ address, port: port(ownOrdinal) }),
          publicKey,
          allowedIPs: [...ipv4, ...ipv6, ...(ordinal === undefined ? [] : prefixes)],
          ipv4: ipv4[0] ?? "",
        },
      ];
    });
  });
  return peers.toSorted((a, b) => byText(a.id, b.id));
}

export function planNodeDevices(
  peers: readonly NodePeer[],
  keys: NodeKeys,
  mtu: number,
): readonly WireguardDevice[] {
  return [...Map.groupBy(peers, (it) => it.device)].flatMap(([name, all]) => {
    const [first] = all;
    const privateKey = keys.get(first?.epoch ?? 0);
    if (first === undefined || privateKey === undefined) return [];
    const of = all.map(({ publicKey, endpoint, allowedIPs }) => ({ publicKey, endpoint, allowedIPs }));
    return [{ name, privateKey, listenPort: first.port, mtu, peers: of }];
  });
}
