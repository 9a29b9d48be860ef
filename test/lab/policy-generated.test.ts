/** Generated policies of all kinds: what the kernel forwards is what the evaluator says, packet by packet. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { formatAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { PolicyDraft } from "@fairlead/fleet/dataplane/policy/policy-draft.ts";
import { FAMILIES, peerSet, POLICY_TABLE } from "@fairlead/fleet/dataplane/policy/names.ts";
import { doesFqdnMatch } from "@fairlead/fleet/policy/fqdn.ts";
import { type CaseStep, stepsOf } from "@fairlead/fleet/policy/testing/cases.fake.ts";
import { EXTERNAL, traffic } from "@fairlead/fleet/policy/testing/generate.fake.ts";
import { actorsOf, isOwnNode } from "@fairlead/fleet/policy/testing/world.fake.ts";
import { type LibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { endRevokedFlows } from "@fairlead/os/nft/netlink/conntrack.ts";
import { openNetlinkSocket } from "@fairlead/os/nft/netlink/socket.ts";
import { awaitFrames, openPacketSocket, type PacketSocket } from "@fairlead/os/packet/socket.ts";
import { found } from "../support/lab-fixture.ts";
import { sampleOf } from "../support/sample.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";
import { ip } from "./proxy-world.ts";
import { frameOf, markOf, type RawPacket } from "./raw-packets.ts";

const fixture = netnsFixture();
const ROUTER_MAC = "02:00:00:00:00:01";
const STEPS = 6;
/** Seeds. */
const CASES = sampleOf(
  Array.from({ length: 100 }, (_, seed) => seed),
  [0, 1, 2, 3, 14, 15, 16, 17],
);
const PROBES = 60;
const signal = AbortSignal.timeout(600_000);

let libc: LibC;
let router: string;
let left: PacketSocket;
let right: PacketSocket;
/** Of the last packet. Frames of the kernel end in small numbers. */
let marks = 0x5a00_0000;

/** A router between two links: what comes by the left one leaves by the right one, if it is not dropped. */
async function makeRouter(): Promise<void> {
  libc = found(await loadLibC());
  router = await fixture.netns("router");
  const ends = await fixture.netns("ends");
  await ip(router, [
    `link add left address ${ROUTER_MAC} type veth peer name left netns ${ends}`,
    `link add right type veth peer name right netns ${ends}`,
  ]);
  await writeSysctls(router, { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS }, signal);
  await writeSysctls(ends, STATIC_IPV6_SYSCTLS, signal);
  await writeSysctls(
    router,
    {
      "net/ipv4/conf/all/rp_filter": 0,
      "net/ipv4/conf/left/rp_filter": 0,
      "net/netfilter/nf_conntrack_checksum": 0,
    },
    signal,
  );
  for (const netns of [router, ends]) await ip(netns, ["link set left up", "link set right up"]);
  await ip(router, [
    "addr add 192.0.2.1/30 dev right",
    "addr add 2001:db8:ffff::1/64 dev right nodad",
    "route add default via 192.0.2.2",
    "route add default via 2001:db8:ffff::2",
    "neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev right",
    "neigh replace 2001:db8:ffff::2 lladdr 02:00:00:00:00:02 dev right",
  ]);
  left = openPacketSocket(libc, { netns: ends, device: "left" });
  right = openPacketSocket(libc, { netns: ends, device: "right" });
}

/** Marks of the packets that are forwarded. */
function forwarded(packets: readonly RawPacket[], expected: number): ReadonlySet<number> {
  const first = found(packets[0]).mark;
  const mac = Buffer.from(ROUTER_MAC.replaceAll(":", ""), "hex");
  for (const it of packets) left.send(frameOf(it, mac));
  const seen = new Set<number>();
  for (let tries = 0; tries < 3 && seen.size < expected; tries++) collect(seen, 300);
  // What comes and should not is late at most by this.
  collect(seen, 5);
  return new Set([...seen].filter((mark) => mark >= first && mark <= marks));
}

function collect(seen: Set<number>, waitMs: number): void {
  awaitFrames(libc, [right], waitMs);
  for (let frame = right.receive(); frame !== undefined; frame = right.receive()) seen.add(markOf(frame));
}

/** Pairs of ends of which none is the own node, whose packets are not forwarded. */
function probesOf({ world, chance }: CaseStep): readonly RawPacket[] {
  const actors = actorsOf(world, EXTERNAL).filter((it) => it.kind !== "node" || !isOwnNode(world, it.node));
  return Array.from({ length: PROBES }, () => [
    chance.one(actors).address,
    chance.one(actors).address,
  ]).flatMap(([source, destination]) =>
    source === undefined ||
    destination === undefined ||
    source === destination ||
    typeof source !== typeof destination
      ? []
      : [{ source, destination, traffic: traffic(chance), mark: ++marks }],
  );
}

function answerNames(draft: PolicyDraft, { changes, world }: CaseStep): void {
  const keys = changes.sets
    .filter((it) => it.state === "new" && it.key.startsWith("fqdn:"))
    .map((it) => it.key);
  for (const key of keys) {
    const answers = [...world.names].filter(([name]) => doesFqdnMatch(name, key.slice("fqdn:".length)));
    for (const address of answers.flatMap(([, it]) => it)) addTo(draft, key, address);
  }
}

function addTo(draft: PolicyDraft, key: string, address: IpAddress): void {
  const family = found(FAMILIES.find((it) => it.name === (typeof address === "number" ? "IPv4" : "IPv6")));
  draft.table.setElement(peerSet(key, family), formatAddress(address), "");
}

describeOnKernel("the kernel", () => {
  beforeAll(makeRouter);
  afterAll(async () => {
    left?.[Symbol.dispose]();
    right?.[Symbol.dispose]();
    await fixture[Symbol.asyncDispose]();
  });

  it("forwards what the evaluator of generated policies allows, and nothing else, while pods, labels and policies change", async () => {
    using nft = createNft({ netns: router });
    using conntrack = openNetlinkSocket(libc, router);
    let probes = 0;
    let denied = 0;
    for (const seed of CASES) {
      await nft.apply(POLICY_TABLE, diffTable(await nft.read(POLICY_TABLE, signal), undefined), signal);
      const draft = new PolicyDraft();
      await nft.apply(POLICY_TABLE, diffTable(undefined, draft.table.whole), signal);
      draft.table.takeChanges();
      let number = 0;
      for (const step of stepsOf(seed, STEPS)) {
        draft.apply(step.changes);
        answerNames(draft, step);
        const { before, after } = draft.table.takeChanges();
        await nft.apply(POLICY_TABLE, diffTable(before, after), signal);
        // Protocols without ports would be flows of earlier probes.
        endRevokedFlows(conntrack, () => true);
        const packets = probesOf(step);
        const allowed = packets.filter((it) =>
          (["egress", "ingress"] as const).every((way) => step.enforced.verdict(it, way).isAllowed),
        );
        const wanted = new Set(allowed.map((it) => it.mark));
        const got = forwarded(packets, wanted.size);
        const wrong = packets.filter((it) => wanted.has(it.mark) !== got.has(it.mark));
        const shown = wrong.map((it) => ({
          source: formatAddress(it.source),
          destination: formatAddress(it.destination),
          traffic: it.traffic,
          isForwarded: got.has(it.mark),
        }));
        expect({ seed, step: number++, shown }).toEqual({ seed, step: number - 1, shown: [] });
        probes += packets.length;
        denied += packets.length - allowed.length;
      }
    }
    // Not a test of an empty table.
    expect(denied / probes).toBeGreaterThan(0.1);
    expect(denied / probes).toBeLessThan(0.9);
  });
});
