import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { applyNetwork, runIpLines } from "@fairlead/os/iproute/driver.ts";
import {
  addVethPair,
  deleteLink,
  replaceAddress,
  replaceRoute,
  setLink,
} from "@fairlead/os/iproute/lines.ts";
import { createNetns, deleteNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { ROUTER_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import { openWireguard } from "@fairlead/os/wireguard/open.ts";
import type { Path } from "./load.ts";

const SIDES = [0, 1] as const;
type Side = (typeof SIDES)[number];
/** Path of a namespace or folder of a side. */
type At = (name: string, side: Side) => string;

const DEVICE = "fl-wg00";
const BARE = "bare";
const VXLAN = "vxlan";

/**
 * Two nodes with a link. Each has a namespace for tunnels with a pod behind it, and a bare tunnel in its own. The devices are those between the
 * nodes of a cluster, and those of gateways: they differ in their peers alone. Next to them is VXLAN, which encrypts nothing.
 *
 *   pod -- fleet -- DEVICE ~ node -- node ~ DEVICE -- fleet -- pod
 */
export interface TunnelWorld extends AsyncDisposable {
  readonly kind: string;
  readonly paths: readonly Path[];
}

export async function startTunnelWorld(signal: AbortSignal): Promise<TunnelWorld> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "fairlead-bench-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const at: At = (name, side) => join(folder, `${name}-${side}`);
  for (const side of SIDES) {
    for (const name of ["node", "fleet", "pod"]) {
      await createNetns(at(name, side), signal);
      stack.defer(() => deleteNetns(at(name, side), AbortSignal.timeout(10_000)));
    }
  }
  await linkNodes(at, signal);
  for (const side of SIDES) await linkPod(at, side, signal);
  const kind = await ourTunnel(at, stack, signal);
  await vxlan(at, signal);
  await bareTunnel(at, { kind, stack, signal });
  const [fromNode, toNode] = [at("node", 0), at("node", 1)];
  const carriers = kind === "kernel" ? [] : await processes(at);
  const named = (name: string): readonly number[] =>
    carriers.filter((it) => it.name === name).map((it) => it.pid);
  const pods = { from: at("pod", 0), to: "10.112.1.2", toNetns: at("pod", 1) };
  const held = stack.move();
  return {
    kind,
    paths: [
      { name: "pod to pod", ...pods, pids: named(DEVICE) },
      { name: "pod to pod by VXLAN", ...pods, to: "10.113.1.2", pids: [] },
      { name: "bare tunnel", from: fromNode, to: "10.7.0.2", toNetns: toNode, pids: named(BARE) },
      { name: "link", from: fromNode, to: "192.0.2.2", toNetns: toNode, pids: [] },
    ],
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

async function linkNodes(at: At, signal: AbortSignal): Promise<void> {
  const ends = [at("node", 0), at("node", 1)] as const;
  const pair = addVethPair({ device: "uplink", netns: ends[0] }, { device: "uplink", netns: ends[1] });
  await runIpLines([pair], { signal });
  for (const side of SIDES) {
    const lines = [setLink("uplink", { up: true }), replaceAddress("uplink", `192.0.2.${side + 1}/24`)];
    await runIpLines(lines, { netns: ends[side], signal });
  }
}

async function linkPod(at: At, side: Side, signal: AbortSignal): Promise<void> {
  const [pod, fleet] = [at("pod", side), at("fleet", side)];
  await runIpLines([addVethPair({ device: "pod", netns: fleet }, { device: "eth-fleet", netns: pod })], {
    signal,
  });
  const [gateway, own] = [`10.112.${side}.1`, `10.112.${side}.2`];
  await runIpLines([setLink("pod", { up: true }), replaceAddress("pod", `${gateway}/24`)], {
    netns: fleet,
    signal,
  });
  await runIpLines(
    [
      setLink("eth-fleet", { up: true }),
      replaceAddress("eth-fleet", `${own}/24`),
      replaceRoute({ to: "10.112.0.0/12", hops: [{ device: "eth-fleet", via: gateway }], mtu: MTU }),
    ],
    { netns: pod, signal },
  );
  await writeSysctls(fleet, ROUTER_SYSCTLS, signal);
}

const MTU = 1408;
/** As it was between nodes: 1500 less 70 bytes. */
const VXLAN_MTU = 1430;

/** As the node agent makes it. Returns the kind of WireGuard. */
async function ourTunnel(at: At, stack: AsyncDisposableStack, signal: AbortSignal): Promise<string> {
  const keys = [generateKeyPair(), generateKeyPair()] as const;
  let kind = "";
  for (const side of SIDES) {
    const other: Side = side === 0 ? 1 : 0;
    const options = { folder: at("state", side), netns: at("fleet", side), birthNetns: at("node", side) };
    const devices = await openWireguard({ ...options, clock: systemClock }, signal);
    stack.defer(() => devices.remove(DEVICE, AbortSignal.timeout(10_000)));
    const peer = {
      publicKey: keys[other].publicKey,
      endpoint: `192.0.2.${other + 1}:31820`,
      allowedIPs: [`10.112.${other}.0/24`],
    };
    const { privateKey } = keys[side];
    await devices.apply({ name: DEVICE, privateKey, listenPort: 31_820, mtu: MTU, peers: [peer] }, signal);
    const routes = [{ to: `10.112.${other}.0/24`, hops: [{ device: DEVICE }] }];
    await applyNetwork([DEVICE], { addresses: [], routes, neighbours: [] }, { netns: options.netns, signal });
    kind = devices.kind;
  }
  return kind;
}

/** With addresses of pods of its own: 10.113 in place of 10.112. */
async function vxlan(at: At, signal: AbortSignal): Promise<void> {
  for (const side of SIDES) {
    const other: Side = side === 0 ? 1 : 0;
    const [node, fleet, pod] = [at("node", side), at("fleet", side), at("pod", side)];
    const script = `
      ip link add ${VXLAN} mtu ${VXLAN_MTU} netns ${fleet} type vxlan id 1 dstport 4790 local 192.0.2.${side + 1} remote 192.0.2.${other + 1}
      nsenter --net=${fleet} sh -ec '
        ip link set ${VXLAN} up
        ip address add 10.114.0.${side + 1}/24 dev ${VXLAN}
        ip address add 10.113.${side}.1/24 dev pod
        ip route add 10.113.${other}.0/24 via 10.114.0.${other + 1}'
      nsenter --net=${pod} sh -ec '
        ip address add 10.113.${side}.2/24 dev eth-fleet
        ip route add 10.113.0.0/16 via 10.113.${side}.1 mtu ${VXLAN_MTU}'`;
    const line = inNetns(node, "sh", ["-ec", script]);
    await exec(line.command, line.args, { signal });
  }
}

/** As its documentation has it: a device in the namespace of the node, configured by wg, with its own MTU. */
async function bareTunnel(
  at: At,
  {
    kind,
    stack,
    signal,
  }: { readonly kind: string; readonly stack: AsyncDisposableStack; readonly signal: AbortSignal },
): Promise<void> {
  const keys = [generateKeyPair(), generateKeyPair()] as const;
  for (const side of SIDES) {
    const other: Side = side === 0 ? 1 : 0;
    const netns = at("node", side);
    const script = `
      ${kind === "kernel" ? `ip link add ${BARE} type wireguard` : `mount -t tmpfs tmpfs /var/run; wireguard-go ${BARE}`}
      cat | wg set ${BARE} private-key /proc/self/fd/0 listen-port 51820 peer ${keys[other].publicKey} \
        endpoint 192.0.2.${other + 1}:51820 allowed-ips 10.7.0.${other + 1}/32
      ip address add 10.7.0.${side + 1}/24 dev ${BARE}
      ip link set ${BARE} up`;
    const line = inNetns(netns, "unshare", ["--mount", "sh", "-ec", script]);
    await exec(line.command, line.args, { input: keys[side].privateKey, signal });
    // The process of wireguard-go ends with its device.
    stack.defer(() => runIpLines([deleteLink(BARE)], { netns, signal: AbortSignal.timeout(10_000) }));
  }
}

/** Processes of wireguard-go, by the device that each serves. */
async function processes(at: At): Promise<readonly { readonly pid: number; readonly name: string }[]> {
  const found = await pidsByNetns(SIDES.map((side) => at("node", side)));
  return [...found.values()].flat().map((pid) => {
    const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return { pid, name: words.findLast((it) => it !== "") ?? "" };
  });
}
