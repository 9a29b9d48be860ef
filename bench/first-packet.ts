/**
 * Claim: the first packet of a flow costs the same, however many policies the cluster has. Packets from a pod go through the forward hook of a
 * node, with 0, 1, 100 and 1,000 policies.
 *
 *   npm run bench -- first-packet
 *
 * "others": each policy selects another pod. "same": all select the pod that the packets are for, each with another peer, and the last one allows.
 * Needs root. The time is that until all packets have arrived, with sending and receiving; least and median of alternating rounds.
 */

import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { PolicyDraft } from "@fairlead/fleet/dataplane/policy/policy-draft.ts";
import { POLICY_TABLE } from "@fairlead/fleet/dataplane/policy/names.ts";
import { compileNetworkPolicy } from "@fairlead/fleet/policy/compile/network-policy.ts";
import { Resolver } from "@fairlead/fleet/policy/resolver/resolver.ts";
import { type LibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { endRevokedFlows } from "@fairlead/os/nft/netlink/conntrack.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { openNetlinkSocket } from "@fairlead/os/nft/netlink/socket.ts";
import { awaitFrames, openPacketSocket, type PacketSocket } from "@fairlead/os/packet/socket.ts";
import { netnsFixture } from "../test/support/netns-fixture.ts";
import { ip } from "../test/lab/proxy-world.ts";
import { frameOf } from "../test/lab/raw-packets.ts";

const PACKETS = 2000;
const ROUNDS = 9;
const COUNTS = [0, 1, 100, 1000];
const MAC = "02:00:00:00:00:01";
const signal = AbortSignal.timeout(600_000);

const addressOf = (pod: number): string => `10.244.${pod >> 8}.${pod & 255}`;

/** @param isSame - All policies select pod 1. */
function tableOf(policies: number, isSame: boolean): PolicyDraft {
  const resolver = new Resolver({ cluster: "own", node: "n1" });
  resolver.upsertNamespace({ cluster: "own", name: "x", labels: {} });
  for (let pod = 1; pod <= 1100; pod++)
    resolver.upsertPod({
      cluster: "own",
      namespace: "x",
      name: `p${pod}`,
      labels: { pod: `${pod}` },
      serviceAccount: "default",
      addresses: [parseAddress(addressOf(pod))],
      ports: [],
      node: "n1",
    });
  for (let index = 1; index <= policies; index++) {
    const subject = isSame ? 1 : index;
    // The client is pod 1100.
    const peer = index === policies || !isSame ? 1100 : index + 1;
    const spec = {
      podSelector: { matchLabels: { pod: `${subject}` } },
      ingress: [{ from: [{ podSelector: { matchLabels: { pod: `${peer}` } } }] }],
    };
    const policy = { metadata: { namespace: "x", name: `q${String(index).padStart(5, "0")}` }, spec };
    for (const it of compileNetworkPolicy(policy, { cluster: "own", isLocalByDefault: true }).policies)
      resolver.upsertPolicy(it);
  }
  const draft = new PolicyDraft();
  draft.apply(resolver.take());
  return draft;
}

export async function run(): Promise<void> {
  const libc = await loadLibC();
  if (libc === undefined) throw new Error("the C library cannot be loaded");
  await using fixture = netnsFixture();
  const [router, ends] = [await fixture.netns("router"), await fixture.netns("ends")];
  await ip(router, [
    `link add left address ${MAC} type veth peer name left netns ${ends}`,
    `link add right type veth peer name right netns ${ends}`,
  ]);
  await writeSysctls(
    router,
    {
      ...ROUTER_SYSCTLS,
      ...STATIC_IPV6_SYSCTLS,
      "net/ipv4/conf/all/rp_filter": 0,
      "net/ipv4/conf/left/rp_filter": 0,
      "net/netfilter/nf_conntrack_checksum": 0,
    },
    signal,
  );
  for (const netns of [router, ends]) await ip(netns, ["link set left up", "link set right up"]);
  await ip(router, [
    "addr add 192.0.2.1/30 dev right",
    "route add default via 192.0.2.2",
    // The node reaches a source by the device that it comes by.
    `route add ${addressOf(1100)} dev left`,
    "neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev right",
  ]);
  using left = openPacketSocket(libc, { netns: ends, device: "left" });
  using right = openPacketSocket(libc, { netns: ends, device: "right" });
  using nft = createNft({ netns: router });
  using conntrack = openNetlinkSocket(libc, router);
  const mac = Buffer.from(MAC.replaceAll(":", ""), "hex");
  const frames = Array.from({ length: PACKETS }, (_, at) =>
    frameOf(
      {
        source: parseAddress(addressOf(1100)),
        destination: parseAddress(addressOf(1)),
        traffic: { kind: "transport", protocol: "TCP", port: 80 },
        mark: at + 1,
      },
      mac,
    ),
  );

  const cases = [false, true].flatMap((isSame) => COUNTS.map((policies) => ({ isSame, policies })));
  const times = new Map<string, number[]>();
  for (let round = 0; round < ROUNDS; round++)
    for (const { isSame, policies } of cases) {
      const { whole } = tableOf(policies, isSame).table;
      await nft.apply(POLICY_TABLE, diffTable(await nft.read(POLICY_TABLE, signal), undefined), signal);
      await nft.apply(POLICY_TABLE, diffTable(undefined, whole), signal);
      endRevokedFlows(conntrack, () => true);
      const began = process.hrtime.bigint();
      for (const it of frames) left.send(it);
      const arrived = arrivals(libc, right);
      if (arrived < PACKETS * 0.9) throw new Error(`${arrived} of ${PACKETS} packets were forwarded`);
      const microseconds = Number(process.hrtime.bigint() - began) / 1000 / PACKETS;
      const name = `${isSame ? "same" : "others"} ${policies}`;
      times.set(name, [...(times.get(name) ?? []), microseconds]);
    }
  show(times);
}

/** Until all have arrived, or no more come. */
function arrivals(libc: LibC, right: PacketSocket): number {
  let arrived = 0;
  for (let idle = 0; arrived < PACKETS && idle < 3; idle++) {
    awaitFrames(libc, [right], 100);
    const before = arrived;
    while (right.receive() !== undefined) arrived++;
    if (arrived > before) idle = 0;
  }
  return arrived;
}

function show(times: ReadonlyMap<string, readonly number[]>): void {
  console.log("policies        µs for each packet: least, median");
  for (const [name, all] of times) {
    const sorted = all.toSorted((a, b) => a - b);
    const shown = [sorted[0], sorted[sorted.length >> 1]].map((it) => (it ?? 0).toFixed(2).padStart(8));
    console.log(`${name.padEnd(16)}${shown.join("")}`);
  }
}
