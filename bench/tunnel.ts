/**
 * What does the way of a packet from pod to pod cost, between nodes of a cluster or gateways, beyond the encryption? Compared with a bare WireGuard
 * tunnel between the nodes, configured by hand, with VXLAN, and with the link between the nodes itself, in turns in the same run.
 *
 *   npm run bench -- tunnel [--rounds 5] [--seconds 3]
 *
 * Throughput and CPU by iperf3 if it is installed. CPU is that of both ends and of wireguard-go, per gigabit received.
 */
import { parseArgs } from "node:util";
import { comparePaths } from "./tunnel/measure.ts";
import { startTunnelWorld } from "./tunnel/world.ts";

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: { rounds: { type: "string", default: "5" }, seconds: { type: "string", default: "3" } },
  });
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  const signal = AbortSignal.timeout((rounds * 4 * (seconds + 10) + 60) * 1000);
  await using world = await startTunnelWorld(signal);
  console.log(`pods are linked by ${world.kind}`);
  await comparePaths(world.paths, { rounds, seconds, signal, limit: "others" });
}
