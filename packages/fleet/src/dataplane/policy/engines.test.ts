import { expect, it } from "vitest";
import { engineOf } from "./engines.ts";

it.each<[readonly string[], string | undefined]>([
  [["lo", "eth0", "cilium_host"], "Cilium"],
  [["lo", "cali0123456789a"], "Calico"],
  [["vxlan.calico"], "Calico"],
  [["antrea-gw0"], "Antrea"],
  [["kube-bridge"], "kube-router"],
  [["ovn-k8s-mp0"], "OVN-Kubernetes"],
  [["weave"], "Weave Net"],
  [["lo", "eth0", "cni0", "flannel.1", "veth0123", "fl-host", "calico", "docker0"], undefined],
])("the devices %j are those of a node with the engine %s", (devices, engine) => {
  expect(engineOf(devices)).toBe(engine);
});
