/**
 * What do pods lose when a part of the parallel network fails? Three members behind NAT, two gateways each; between two of them tunnels
 * are direct, to the third they go by the relay. 1000 datagrams a second and 8 TCP connections from pod to pod, while something fails,
 * and in turns with runs in which nothing does: what these lose is the machine's part.
 *
 *   npm run bench -- failover [--rounds 3] [--seconds 10] [--only TEXT]
 *   npm run bench -- failover --global [--rounds 3] [--seconds 30] [--only TEXT]
 *
 * With --global: what requests to a global Service lose, in a flat network (bench/failover/global.ts).
 */
import { parseArgs } from "node:util";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { ADDRESS_BLOCKS, GATEWAYS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { nodeNetns, siteNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { startLab, type TestLab } from "../test/support/lab-fixture.ts";
import { mcsExport, namespace, nodePod, programScript, service } from "../test/support/lab-manifests.ts";
import { until } from "../test/support/waiting.ts";
import { runGlobal } from "./failover/global.ts";
import { PORT, type Result } from "./failover/result.ts";

const MEMBERS = ["member-1", "member-2", "member-3"] as const;
/** The aim. Unit: milliseconds. */
const AIM_MS = 1000;
/** The fault comes after the traffic began. Unit: milliseconds. */
const FAULT_AFTER_MS = 3000;

interface Fault {
  readonly name: string;
  readonly to: "member-2" | "member-3";
  readonly begin: (lab: TestLab) => Promise<unknown>;
  readonly end?: (lab: TestLab) => Promise<unknown>;
}

const program = (name: string): URL => new URL(`failover/${name}.ts`, import.meta.url);

async function nft(netns: string, script: string): Promise<void> {
  const line = inNetns(netns, "nft", [script]);
  await exec(line.command, line.args);
}

/** Drops what the rule matches, in both directions. */
async function cut(netns: string, rule: (side: "in" | "out") => string): Promise<void> {
  const chains = [
    ["in", "prerouting"],
    ["out", "postrouting"],
  ] as const;
  const lines = chains.map(
    ([side, hook]) =>
      `add chain inet cut ${side} { type filter hook ${hook} priority -350; }; add rule inet cut ${side} ${rule(side)} drop`,
  );
  await nft(netns, `add table inet cut; ${lines.join("; ")}`);
}

const nodeOf = (lab: TestLab, node: string): string => lab.layout.netnsOf(nodeNetns({ name: node }));
const siteOf = (lab: TestLab, member: string): string => lab.layout.netnsOf(siteNetns(lab.cluster(member)));

async function killTunnels(lab: TestLab, node: string): Promise<void> {
  const netns = nodeOf(lab, node);
  for (const pid of (await pidsByNetns([netns])).get(netns) ?? []) {
    const { stdout } = await exec("cat", [`/proc/${pid}/comm`], { allowFailure: true });
    if (stdout.trim() === "wireguard-go") process.kill(pid, "SIGKILL");
  }
}

async function restart(lab: TestLab, programs: readonly string[]): Promise<void> {
  await Promise.all(programs.map((it) => lab.lab("kill", [it])));
  await Promise.all(programs.map((it) => lab.lab("restore", [it])));
}

let rotations = 0;

const FAULTS: readonly Fault[] = [
  { name: "nothing (direct)", to: "member-2", begin: async () => {} },
  {
    name: "WireGuard of a gateway killed",
    to: "member-2",
    begin: (lab) => killTunnels(lab, "member-2-node-1"),
  },
  {
    name: "WireGuard of the client's node, a gateway, killed",
    to: "member-2",
    begin: (lab) => killTunnels(lab, "member-1-node-2"),
  },
  {
    name: "gateway node cut",
    to: "member-2",
    begin: (lab) =>
      cut(nodeOf(lab, "member-2-node-1"), (side) => (side === "in" ? 'iifname "eth0"' : 'oifname "eth0"')),
    end: (lab) => nft(nodeOf(lab, "member-2-node-1"), "delete table inet cut"),
  },
  {
    name: "direct path cut",
    to: "member-2",
    begin: (lab) => {
      const address = lab.cluster("member-2").uplink?.v4;
      const rule = (side: string): string =>
        side === "in" ? `iifname "up" ip saddr ${address}` : `oifname "up" ip daddr ${address}`;
      return cut(siteOf(lab, "member-1"), rule);
    },
    end: (lab) => nft(siteOf(lab, "member-1"), "delete table inet cut"),
  },
  {
    name: "direct path cut one way",
    to: "member-2",
    begin: (lab) => {
      const rule = `iifname "up" ip saddr ${lab.cluster("member-1").uplink?.v4} meta l4proto udp drop`;
      const chain = "type filter hook prerouting priority -350;";
      const script = `add table inet cut; add chain inet cut in { ${chain} }; add rule inet cut in ${rule}`;
      return nft(siteOf(lab, "member-2"), script);
    },
    end: (lab) => nft(siteOf(lab, "member-2"), "delete table inet cut"),
  },
  { name: "nothing (relay)", to: "member-3", begin: async () => {} },
  {
    name: "relay killed",
    to: "member-3",
    begin: (lab) => lab.lab("kill", ["hub/relay"]),
    end: (lab) => lab.lab("restore", ["hub/relay"]),
  },
  {
    name: "agents of nodes restarted",
    to: "member-2",
    begin: (lab) =>
      restart(
        lab,
        ["member-1", "member-2"].flatMap((it) => [`${it}/node-1/node`, `${it}/node-2/node`]),
      ),
  },
  {
    name: "managers of hub and members restarted",
    to: "member-2",
    begin: (lab) => restart(lab, ["hub/hub", "member-1/member", "member-2/member"]),
  },
  {
    name: "keys exchanged",
    to: "member-2",
    begin: (lab) => {
      const request = `fairlead.dev/rotate-keys=${(rotations += 1)}`;
      return lab.kubectl("hub", ["annotate", "clustermeshprofile", "parallel", request, "--overwrite"]);
    },
  },
];

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      rounds: { type: "string", default: "3" },
      seconds: { type: "string" },
      only: { type: "string", default: "" },
      global: { type: "boolean", default: false },
    },
  });
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds ?? (values.global ? 30 : 10))];
  if (values.global) return runGlobal({ rounds, seconds, only: values.only });
  await using lab = await startLab({
    name: "failover",
    members: MEMBERS.length,
    nodes: 2,
    flags: ["--topology", "nat"],
  });
  const addresses = await prepare(lab);
  console.log(`${rounds} rounds of ${seconds} s for each fault, ${seconds * 1000} datagrams in each`);
  const results = new Map<Fault, Result[]>(
    FAULTS.filter((it) => it.name.includes(values.only)).map((it) => [it, []]),
  );
  for (let round = 0; round < rounds; round++)
    for (const [fault, of] of results) {
      await settled(lab);
      const result = await measure(lab, fault, { address: addresses.get(fault.to) ?? "", seconds });
      of.push(result);
      console.log(`${fault.name}: ${JSON.stringify(result)}`);
      await fault.end?.(lab);
    }
  print(results);
}

/** @returns The fleet addresses of the server of each member, in both families. */
async function prepare(lab: TestLab): Promise<ReadonlyMap<string, string>> {
  const name = { namespace: "work", name: "server" };
  for (const member of MEMBERS) {
    await lab.apply(member, namespace("work"));
    await lab.kubectl(member, ["-n", "work", "wait", "--for=create", "serviceaccount/default"]);
    await lab.apply(
      member,
      ...(member === "member-1"
        ? [pinned(nodePod({ namespace: "work", name: "client" }), "member-1-node-2")]
        : [
            pinned(nodePod(name, programScript(program("server"))), `${member}-node-2`),
            service(
              name,
              {},
              {
                ports: [
                  { name: "udp", protocol: "UDP", port: PORT },
                  { name: "tcp", protocol: "TCP", port: PORT },
                ],
              },
            ),
            mcsExport(name),
          ]),
    );
  }
  const addresses = new Map<string, string>();
  for (const member of ["member-2", "member-3"]) {
    const client = await lab.client(member);
    const address = await until(
      `a fleet address of the server of ${member}`,
      async () => {
        const { uid } = (await client.get(PODS, objectKey("work", "server"))).metadata;
        const blocks = (await client.list(ADDRESS_BLOCKS, { namespace: FLEET_SYSTEM_NAMESPACE })).items;
        return blocks.flatMap((it) => it.status?.allocations ?? []).find((it) => it.podUID === uid);
      },
      (it) => it !== undefined,
    );
    addresses.set(member, `${address?.ipv4},${address?.ipv6}`);
  }
  return addresses;
}

function pinned(pod: Readonly<Record<string, unknown>>, nodeName: string): Readonly<Record<string, unknown>> {
  return { ...pod, spec: { ...(pod["spec"] as object), nodeName } };
}

/** Until each tunnel has the path that it is to have. */
async function settled(lab: TestLab): Promise<void> {
  const hub = await lab.client("hub");
  const wanted = { "member-2": "direct", "member-3": "relay" } as const;
  await until(
    "the paths of member-1",
    async () => (await hub.list(GATEWAYS, { namespace: mailboxOf("member-1") })).items,
    (gateways) => {
      const paths = gateways.flatMap((it) => it.status?.paths ?? []);
      return paths.length === 8 && paths.every((it) => it.path === wanted[it.cluster as keyof typeof wanted]);
    },
    { timeoutMs: 120_000 },
  );
  await delay(systemClock, FAULT_AFTER_MS, new AbortController().signal);
}

async function measure(
  lab: TestLab,
  fault: Fault,
  { address, seconds }: { readonly address: string; readonly seconds: number },
): Promise<Result> {
  const script = programScript(program("client"), address, String(seconds));
  const running = lab.inPod("member-1", "work/client", script);
  await delay(systemClock, FAULT_AFTER_MS, new AbortController().signal);
  await fault.begin(lab);
  return JSON.parse(await running) as Result;
}

function print(results: ReadonlyMap<Fault, readonly Result[]>): void {
  const spread = (of: readonly number[]): string => {
    const sorted = of.toSorted((a, b) => a - b).map((it) => Math.round(it));
    return `${sorted[sorted.length >> 1]} (${sorted[0]} to ${sorted.at(-1)})`;
  };
  const columns: [string, (it: [Fault, readonly Result[]]) => string][] = [
    ["WHAT FAILS", ([fault]) => fault.name],
    ["LOST", ([, of]) => spread(of.map((it) => it.lost))],
    ["FOR MS", ([, of]) => spread(of.map((it) => it.outageMs))],
    ["OF THE AIM", ([, of]) => (Math.max(...of.map((it) => it.outageMs)) / AIM_MS).toFixed(2)],
    ["TCP KEPT", ([, of]) => `${Math.min(...of.map((it) => it.tcpKept))} of ${of[0]?.tcp}`],
    ["TCP SILENT MS", ([, of]) => spread(of.map((it) => it.tcpSilentMs))],
  ];
  console.log(
    renderTable(
      columns.map(([head, cell]) => ({ head, cell })),
      [...results],
    ),
  );
}
