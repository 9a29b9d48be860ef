/**
 * Generated policies of all kinds, in flat and parallel networks: what the kernel lets through is what the evaluator says, packet by packet. In a
 * parallel network the node and its namespace `fleet` have the same table, and pods their own and their fleet addresses.
 */

import { afterAll, beforeAll, expect, it } from "vitest";
import { formatAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { PolicyDraft } from "@fairlead/fleet/dataplane/policy/policy-draft.ts";
import { DNS_PORT, FAMILIES, peerSet, POLICY_TABLE } from "@fairlead/fleet/dataplane/policy/names.ts";
import { FQDN, patternOf } from "@fairlead/fleet/policy/peers.ts";
import { doesFqdnMatch } from "@fairlead/fleet/policy/fqdn.ts";
import { type CaseStep, stepsOf } from "@fairlead/fleet/policy/testing/cases.fake.ts";
import { EXTERNAL, traffic } from "@fairlead/fleet/policy/testing/generate.fake.ts";
import { actorsOf } from "@fairlead/fleet/policy/testing/world.fake.ts";
import { loadLibC } from "@fairlead/os/libc/libc.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { found } from "../support/lab-fixture.ts";
import { isFull } from "../support/sample.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";
import { OWN_NODE, PolicyRouter } from "./policy-router.ts";
import type { RawPacket } from "./raw-packets.ts";

const fixture = netnsFixture();
/** Seeds. Each is a world with policies, which changes step by step. */
const SEEDS = Number(process.env["POLICY_SEEDS"] ?? (isFull ? 1250 : 32));
const STEPS = 8;
/** After each step. */
const PROBES = 120;
/** At once: `nft` waits for the kernel for most of its time. */
const ROUTERS = 6;
const FIRST_MARK = 0x5a00_0000;
/** For all seeds, on a machine that has much else to do. Unit: milliseconds. */
const TIMEOUT_MS = 1_200_000;
const signal = AbortSignal.timeout(TIMEOUT_MS);

const routers: PolicyRouter[] = [];

interface Probe extends RawPacket {
  readonly step: number;
  readonly isAllowed: boolean;
}

/** The packets that went another way than the evaluator says, and all. */
interface Outcome {
  readonly probes: readonly Probe[];
  readonly wrong: readonly Probe[];
}

function probesOf({ world, enforced, chance }: CaseStep, step: number, mark: number): readonly Probe[] {
  const actors = actorsOf(world, EXTERNAL);
  // Often enough the node itself.
  const end = (): IpAddress => (chance.is(0.15) ? chance.one(OWN_NODE) : chance.one(actors).address);
  return Array.from({ length: PROBES }, (_, at) => ({
    source: end(),
    destination: end(),
    traffic: traffic(chance),
    mark: mark + at,
  }))
    .filter(({ source, destination }) => typeof source === typeof destination && source !== destination)
    .map((it) => ({
      ...it,
      step,
      isAllowed:
        // The proxy of the node decides by the name, when it has the packet.
        isRedirected(it, enforced) ||
        (["egress", "ingress"] as const).every((way) => enforced.verdict(it, way).isAllowed),
    }));
}

function isRedirected({ source, traffic: kind }: RawPacket, enforced: CaseStep["enforced"]): boolean {
  return (
    kind.kind === "transport" &&
    kind.protocol !== "SCTP" &&
    kind.port === DNS_PORT &&
    !OWN_NODE.includes(source) &&
    enforced.isProxied(source)
  );
}

function answerNames(draft: PolicyDraft, { changes, world }: CaseStep): void {
  const keys = changes.sets.filter((it) => it.state === "new" && it.key.startsWith(FQDN)).map((it) => it.key);
  for (const key of keys) {
    const answers = [...world.names].filter(([name]) =>
      doesFqdnMatch(name, patternOf(key.slice(FQDN.length))),
    );
    for (const address of answers.flatMap(([, it]) => it)) addTo(draft, key, address);
  }
}

function addTo(draft: PolicyDraft, key: string, address: IpAddress): void {
  const family = found(FAMILIES.find((it) => it.name === (typeof address === "number" ? "IPv4" : "IPv6")));
  draft.table.setElement(peerSet(key, family), formatAddress(address), "");
}

/** @param isSlow - Reads after each step what got through; else once, at the end. */
async function runSeed(router: PolicyRouter, seed: number, isSlow: boolean): Promise<Outcome> {
  const { nft } = router;
  const draft = new PolicyDraft();
  draft.setProxies(OWN_NODE);
  const old = await nft.read(POLICY_TABLE, signal);
  await nft.apply(POLICY_TABLE, diffTable(old, draft.table.whole), signal);
  draft.table.takeChanges();
  const probes: Probe[] = [];
  const seen = new Set<number>();
  const collect = async (): Promise<void> => (await router.seen()).forEach((it) => seen.add(it));
  for (const [number, step] of stepsOf(seed, STEPS).map((it, at) => [at, it] as const)) {
    draft.apply(step.changes);
    answerNames(draft, step);
    const { before, after } = draft.table.takeChanges();
    await nft.apply(POLICY_TABLE, diffTable(before, after), signal);
    const packets = probesOf(step, number, FIRST_MARK + number * PROBES);
    router.send(packets);
    probes.push(...packets);
    if (isSlow) await collect();
  }
  await collect();
  return { probes, wrong: probes.filter((it) => it.isAllowed !== seen.has(it.mark)) };
}

const ENDS = ["forwarded", "to the node", "from the node"] as const;

function endOf({ source, destination }: RawPacket): (typeof ENDS)[number] {
  if (OWN_NODE.includes(source)) return "from the node";
  return OWN_NODE.includes(destination) ? "to the node" : "forwarded";
}

describeOnKernel("the kernel", () => {
  beforeAll(async () => {
    const libc = found(await loadLibC());
    for (let number = 0; number < ROUTERS; number++)
      routers.push(await PolicyRouter.make(libc, fixture, { name: `r${number}`, own: OWN_NODE }));
  });
  afterAll(async () => {
    for (const it of routers) it[Symbol.dispose]();
    await fixture[Symbol.asyncDispose]();
  });

  it(
    "lets through what the evaluator of generated policies allows, and nothing else, while pods, labels and policies change",
    { timeout: TIMEOUT_MS },
    async () => {
      let next = 0;
      const counts = new Map(ENDS.map((it) => [it, { allowed: 0, denied: 0 }]));
      await Promise.all(
        routers.map(async (router) => {
          while (next < SEEDS) {
            const seed = next++;
            let { probes, wrong } = await runSeed(router, seed, false);
            // A packet that the kernel was late with met the rules of the next step.
            if (wrong.length > 0) ({ probes, wrong } = await runSeed(router, seed, true));
            const shown = wrong.map(({ source, destination, ...it }) => ({
              ...it,
              source: formatAddress(source),
              destination: formatAddress(destination),
            }));
            expect({ seed, wrong: shown }).toEqual({ seed, wrong: [] });
            for (const it of probes) found(counts.get(endOf(it)))[it.isAllowed ? "allowed" : "denied"]++;
          }
        }),
      );
      // Not a test of empty tables, at any hook.
      for (const [end, { allowed, denied }] of counts)
        expect(Math.min(allowed, denied), `packets ${end}`).toBeGreaterThan(SEEDS);
    },
  );
});
