/**
 * What does a relay cost a tunnel? WireGuard between two gateways, directly and by a relay: forwarded by the kernel, by the
 * relay's own sockets, and over TLS at both ends; in turns in the same run.
 *
 *   npm run bench -- relay [--rounds 5] [--seconds 3]
 *
 * Throughput and CPU by iperf3 if it is installed: CPU is that of both ends, of WireGuard, and of the relay's processes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { systemClock } from "@fairlead/base/clock.ts";
import { PORT_SHARE_TABLE, portShareTable } from "@fairlead/fleet/dataplane/control/port-share.ts";
import { runIpLines } from "@fairlead/os/iproute/driver.ts";
import { replaceAddress, setLink } from "@fairlead/os/iproute/lines.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import { openWireguard } from "@fairlead/os/wireguard/open.ts";
import {
  BASE_PORT,
  createRelayWorld,
  RELAY,
  type RunningTunnels,
  TLS_PORT,
} from "../test/lab/relay-world.ts";
import { comparePaths } from "./tunnel/measure.ts";
import type { Path } from "./tunnel/load.ts";

/** Of the relay that forwards by its sockets. */
const OTHER_BASE = BASE_PORT + 2000;
const TLS_BASE = BASE_PORT + 4000;
const MTU = 1408;
const AGENT_PORTS = [41_822, 41_824] as const;
const ENDS = ["c", "d"] as const;
const ADDRESSES = ["203.0.3.2", "203.0.4.2"] as const;

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: { rounds: { type: "string", default: "5" }, seconds: { type: "string", default: "3" } },
  });
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  const signal = AbortSignal.timeout((rounds * 4 * (seconds + 10) + 60) * 1000);
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "fairlead-bench-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const world = stack.use(await createRelayWorld({ ports: AGENT_PORTS }));
  const inKernel = await world.startRelay("--forward", "kernel");
  const inUserspace = await world.startRelay("--forward", "userspace", "--base-port", String(OTHER_BASE));
  // A registration over TLS takes the place of one by UDP, so that this relay is one of its own.
  const overTls = await world.startRelay(
    "--forward",
    "kernel",
    "--base-port",
    String(TLS_BASE),
    "--tls-port",
    String(TLS_PORT),
  );
  const netns = [await world.netns("c"), await world.netns("d")] as const;
  const gateways = ENDS.map((it) => world.gateway(it));
  for (const at of netns) {
    using nft = createNft({ netns: at });
    const ports = AGENT_PORTS.map((agent) => ({ agent, wireGuard: agent - 10_000 }));
    await nft.apply(PORT_SHARE_TABLE, diffTable(undefined, portShareTable(ports)), signal);
  }
  const indexOf = (side: number): number => gateways[side]?.index ?? 0;
  const tunnels: RunningTunnels[] = [];
  for (const [side, name] of ENDS.entries()) {
    const other = indexOf(1 - side);
    await gateways[side]?.register(other, { from: AGENT_PORTS[0] });
    await gateways[side]?.register(other, { from: AGENT_PORTS[1], basePort: OTHER_BASE });
    tunnels.push(stack.use(await world.startTunnels(name, [other], 31_826)));
  }
  /** How a gateway reaches the other, by name of the device. */
  const endpoints = (side: number): ReadonlyMap<string, string> =>
    new Map([
      ["direct", `${ADDRESSES[1 - side]}:31820`],
      ["kernel", `${RELAY.v4}:${BASE_PORT + indexOf(1 - side)}`],
      ["sockets", `${RELAY.v4}:${OTHER_BASE + indexOf(1 - side)}`],
      ["tls", `127.0.0.1:${tunnels[side]?.ports[0]}`],
    ]);
  const keys = [generateKeyPair(), generateKeyPair()] as const;
  for (const [side, at] of netns.entries()) {
    const options = { folder: join(folder, String(side)), netns: at, birthNetns: at };
    const devices = await openWireguard({ ...options, clock: systemClock }, signal);
    for (const [number, [name, endpoint]] of [...endpoints(side)].entries()) {
      const device = `${name}${side}`;
      stack.defer(() => devices.remove(device, AbortSignal.timeout(10_000)));
      const peer = {
        publicKey: keys[1 - side]?.publicKey ?? "",
        endpoint,
        allowedIPs: [`10.9.${number}.0/24`],
      };
      const listenPort = 31_820 + 2 * number;
      await devices.apply(
        { name: device, privateKey: keys[side]?.privateKey ?? "", listenPort, mtu: MTU, peers: [peer] },
        signal,
      );
      const lines = [replaceAddress(device, `10.9.${number}.${side + 1}/24`), setLink(device, { up: true })];
      await runIpLines(lines, { netns: at, signal });
    }
  }
  const carriers = [...(await pidsByNetns(netns)).values()].flat();
  const paths: Path[] = [
    { name: "direct", pids: [] },
    { name: "relay, kernel", pids: [inKernel.pid] },
    { name: "relay, its sockets", pids: [inUserspace.pid] },
    { name: "relay, TLS", pids: [overTls.pid] },
  ].map(({ name, pids }, number) => ({
    name,
    from: netns[0],
    toNetns: netns[1],
    to: `10.9.${number}.2`,
    pids: [...pids, ...carriers],
  }));
  await comparePaths(paths, { rounds, seconds, signal, limit: "first" });
}
