/**
 * Network plugins that enforce policies themselves, by the devices that they make on each node. Two engines would each drop what the other
 * one allows, so that nothing is compiled where one of these runs. Pure.
 */
const ENGINES: readonly (readonly [device: RegExp, engine: string])[] = [
  [/^cilium_(host|net|vxlan|geneve|wg0)$/, "Cilium"],
  [/^(cali[0-9a-f]{11}|vxlan\.calico|vxlan-v6\.calico|wireguard\.cali|bpfin\.cali)$/, "Calico"],
  [/^antrea-(gw|tun)0$/, "Antrea"],
  [/^kube-bridge$/, "kube-router"],
  [/^ovn-k8s-mp0$/, "OVN-Kubernetes"],
  [/^weave$/, "Weave Net"],
];

/** The engine of the node with these devices; undefined: none is known. */
export function engineOf(devices: Iterable<string>): string | undefined {
  for (const device of devices) {
    const found = ENGINES.find(([pattern]) => pattern.test(device));
    if (found !== undefined) return found[1];
  }
  return undefined;
}
