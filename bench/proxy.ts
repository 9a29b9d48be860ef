/**
 * Virtual IPs in the namespace `fleet`: what does it cost to program many services, and one change, and what does a client notice?
 *
 * Compared in the same run with chains per service and endpoint that the nft program makes, as kube-proxy's nftables mode lays them out,
 * and with the first packet of a flow to the endpoint itself. The service proxy of a flat network is measured by `bench nft`.
 *
 *   npm run bench -- proxy [--services 1000,10000,30000] [--peer 1000,10000] [--updates 300] [--flows 300]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { silentLogger } from "@fairlead/base/log.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import type { FlowTable } from "@fairlead/fleet/dataplane/service-proxy/flows.ts";
import { KernelTable } from "@fairlead/fleet/dataplane/service-proxy/kernel-table.ts";
import { planVirtualService } from "@fairlead/fleet/dataplane/virtual-ips/plan.ts";
import { VIRTUAL_IP_LAYOUT } from "@fairlead/fleet/dataplane/virtual-ips/table.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { quantile } from "./lab/lab.ts";
import { programChains } from "./proxy/chains.ts";
import { type FirstPackets, SERVER_PORT, SERVERS, startFirstPackets } from "./proxy/first-packet.ts";

const ENDPOINTS = 4;
const BLOCK = "10.127.0.0/16";
/** Updates by the nft program, of which each takes long. */
const PEER_UPDATES = 11;
const NO_FLOWS: FlowTable = {
  end: () => Promise.resolve(),
  idle: () => Promise.resolve(),
  [Symbol.dispose]() {},
};

interface Figures {
  readonly services: number;
  readonly fullMs: number;
  /** Unit: milliseconds. */
  readonly updates: readonly number[];
  readonly updateCpuMs: number;
  /** Round trips of the first packet: to the virtual IP, and to an endpoint. Unit: milliseconds. */
  readonly first: readonly number[];
  readonly direct: readonly number[];
  readonly peer: { readonly fullMs: number; readonly updateMs: number } | undefined;
}

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      services: { type: "string", default: "1000,10000,30000" },
      peer: { type: "string", default: "1000,10000" },
      updates: { type: "string", default: "300" },
      flows: { type: "string", default: "300" },
    },
  });
  const [updates, flows] = [Number(values.updates), Number(values.flows)];
  const peers = new Set(values.peer.split(",").map(Number));
  const signal = AbortSignal.timeout(900_000);
  const folder = mkdtempSync(join(tmpdir(), "fairlead-bench-"));
  try {
    await using world = await startFirstPackets(folder, signal);
    const all: Figures[] = [];
    for (const services of values.services.split(",").map(Number)) {
      const own = await measure(world, { services, updates, flows, signal });
      const peer = peers.has(services) ? await measurePeer(world.netns, services) : undefined;
      all.push({ ...own, services, peer });
    }
    print(all);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Size {
  readonly services: number;
  readonly updates: number;
  readonly flows: number;
  readonly signal: AbortSignal;
}

async function measure(
  world: FirstPackets,
  { services, updates, flows, signal }: Size,
): Promise<Omit<Figures, "services" | "peer">> {
  using nft = createNft({ netns: world.netns });
  const table = new KernelTable({ layout: VIRTUAL_IP_LAYOUT, nft, flows: NO_FLOWS, log: silentLogger });
  const fullMs = await timed(async () => {
    for (let at = 0; at < services; at += 1) planInto(table, at, 0);
    await table.sync(signal);
  });
  const middle = services >> 1;
  const cpu0 = process.cpuUsage();
  const times: number[] = [];
  for (let round = 1; round <= updates; round += 1)
    times.push(
      await timed(async () => {
        planInto(table, middle, round);
        await table.sync(signal);
      }),
    );
  const cpu = process.cpuUsage(cpu0);
  const [first = [], direct = []] = await world.measure(
    [
      [serviceAddress(middle), 80],
      [SERVERS[0], SERVER_PORT],
    ],
    flows,
  );
  await nft.apply(VIRTUAL_IP_LAYOUT.table, [{ verb: "delete-table" }], signal);
  return { fullMs, updates: times, updateCpuMs: (cpu.user + cpu.system) / 1000 / updates, first, direct };
}

/** A service with UDP, so that its first packet is measured without a handshake. */
function planInto(table: KernelTable, number: number, round: number): void {
  const name = `service-${number}`;
  const labels = {
    "multicluster.kubernetes.io/service-name": name,
    "multicluster.kubernetes.io/source-cluster": "b",
  };
  const elements = planVirtualService({
    serviceImport: {
      metadata: { namespace: "bench", name, labels: { [MANAGED_BY_LABEL]: MANAGED_BY } },
      spec: {
        type: "ClusterSetIP",
        ips: [serviceAddress(number)],
        ports: [{ name: "p", port: 80, protocol: "UDP" }],
      },
    },
    slices: [
      {
        metadata: { namespace: "bench", name, labels },
        addressType: "IPv4",
        ports: [{ name: "p", port: SERVER_PORT, protocol: "UDP" }],
        endpoints: endpoints(number, round).map((it) => ({ addresses: [it] })),
      },
    ],
    cluster: "a",
    node: { name: "node", zone: undefined },
    blocks: [BLOCK],
    addressOf: () => undefined,
  });
  table.desired.set(name, elements);
}

function serviceAddress(number: number): string {
  return `10.127.${number >> 8}.${number & 255}`;
}

/** The last endpoint changes with each round. All of them are the server's. */
function endpoints(_number: number, round: number): readonly string[] {
  return [...SERVERS.slice(0, ENDPOINTS - 1), SERVERS[ENDPOINTS - 1 + (round % 2)] ?? ""];
}

async function measurePeer(netns: string, services: number): Promise<Figures["peer"]> {
  const beganMs = performance.now();
  const peer = await programChains(netns, { services, serviceAddress, endpoints });
  const fullMs = performance.now() - beganMs;
  const times: number[] = [];
  for (let round = 0; round < PEER_UPDATES; round += 1) times.push(await timed(peer.update));
  await peer.remove();
  return { fullMs, updateMs: quantile(times, 0.5) };
}

async function timed(action: () => Promise<void>): Promise<number> {
  const beganMs = performance.now();
  await action();
  return performance.now() - beganMs;
}

function print(all: readonly Figures[]): void {
  const ms = (value: number | undefined): string =>
    value === undefined ? "-" : value.toFixed(value < 100 ? 2 : 0);
  const columns: [string, (it: Figures) => string][] = [
    ["SERVICES", (it) => String(it.services)],
    ["PROGRAM ALL MS", (it) => ms(it.fullMs)],
    ["OF CHAINS", (it) => (it.peer === undefined ? "-" : (it.fullMs / it.peer.fullMs).toFixed(3))],
    ["UPDATE P50 MS", (it) => ms(quantile(it.updates, 0.5))],
    ["P99", (it) => ms(quantile(it.updates, 0.99))],
    ["CPU MS", (it) => ms(it.updateCpuMs)],
    [
      "OF CHAINS",
      (it) => (it.peer === undefined ? "-" : (quantile(it.updates, 0.5) / it.peer.updateMs).toFixed(4)),
    ],
    ["FIRST PACKET P50 MS", (it) => ms(quantile(it.first, 0.5))],
    ["P99", (it) => ms(quantile(it.first, 0.99))],
    ["OF DIRECT P50", (it) => (quantile(it.first, 0.5) / quantile(it.direct, 0.5)).toFixed(2)],
    ["CHAINS: ALL MS", (it) => ms(it.peer?.fullMs)],
    ["UPDATE MS", (it) => ms(it.peer?.updateMs)],
  ];
  console.log(
    renderTable(
      columns.map(([head, cell]) => ({ head, cell })),
      all,
    ),
  );
}
