/** Names by the hundred thousand: what they cost grows with their number, and what they fill is bounded. */

import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { TYPE } from "@fairlead/dns/wire/types.ts";
import { FqdnSets } from "@fairlead/fleet/dataplane/policy/fqdn-sets.ts";
import { FAMILIES, peerSet } from "@fairlead/fleet/dataplane/policy/names.ts";
import { PolicyDraft } from "@fairlead/fleet/dataplane/policy/policy-draft.ts";
import { serviceContribution, serviceName, zoneContribution } from "@fairlead/fleet/dns/zone.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { growthOf, isLinear } from "./measure.ts";

/** Names. `npm run test:full` has 50 times as many. */
const NAMES = process.env["GROWTH"] === "full" ? 100_000 : 2000;
const TIMEOUT_MS = 300_000;
const PATTERN = "*.example.com";
const NOTHING = { sets: [], groups: [], groupsGone: [], addresses: [], host: undefined };
/** Queries of a pod that may be open at a time. */
const AT_ONCE = 64;

interface Answering {
  readonly pods: number;
  readonly addresses: number;
}

/** What DNS answers to pods, with the sets and the table that come of it. */
class Node {
  readonly clock = new FakeClock();
  readonly sets = new FqdnSets(this.clock, () => {});
  readonly draft = new PolicyDraft();

  constructor() {
    const set = { key: `fqdn:${PATTERN}`, state: "new" as const, added: [], removed: [] };
    this.sync({ ...NOTHING, sets: [set] });
  }

  sync(found: Parameters<FqdnSets["take"]>[0] = NOTHING): void {
    const { changes, written } = this.sets.take(found);
    this.draft.apply(changes);
    this.draft.table.takeChanges();
    written();
  }

  answer(names: number, { pods, addresses }: Answering): void {
    const untilMs = this.clock.monotonic() + 60_000;
    for (let at = 0; at < names; at++) {
      const found = Array.from({ length: addresses }, (_, of): [IpAddress, number] => [
        0x0b00_0000 + at * addresses + of,
        untilMs,
      ]);
      const name = `n${at}.example.com`;
      const pod = 0x0af4_0000 + (at % pods);
      void this.sets.learn({ pod, name, sets: [PATTERN], addresses: new Map(found) });
      if (at % AT_ONCE === 0) this.sync();
    }
    this.sync();
  }

  get size(): number {
    const names = FAMILIES.map((it) => peerSet(`fqdn:${PATTERN}`, it));
    return names.reduce((sum, it) => sum + (this.draft.table.whole.sets.get(it)?.elements.size ?? 0), 0);
  }
}

async function expectLinear(
  make: (length: number) => number,
  run: (names: number) => unknown,
): Promise<void> {
  const growth = await growthOf({ name: "", limit: NAMES, make }, NAMES, run);
  expect(growth, "costs more than there are names").toSatisfy(isLinear);
}

describe("names of policies", () => {
  it.each<[string, Answering]>([
    ["of a hundred pods", { pods: 100, addresses: 1 }],
    ["of one pod", { pods: 1, addresses: 1 }],
    ["of one pod, with as many addresses as a server can answer", { pods: 1, addresses: 60 }],
  ])(
    "%s cost as much as there are, to learn and to forget",
    async (_, answering) => {
      await expectLinear(
        (it) => it,
        async (names) => {
          const node = new Node();
          node.answer(names, answering);
          await node.clock.advance(120_000);
          await node.sets.expire(() => Promise.resolve(new Set()));
          node.sync();
          expect(node.size).toBe(0);
        },
      );
    },
    TIMEOUT_MS,
  );

  it("fill no more of the kernel's sets for one pod than its bounds, and leave the others what they have", () => {
    const node = new Node();
    const other = { pod: 0x0af5_0000, name: "web.example.com", sets: [PATTERN] };
    void node.sets.learn({ ...other, addresses: new Map([[0x0a00_0001, 1e9]]) });
    node.answer(NAMES, { pods: 1, addresses: 60 });
    expect(node.size).toBe(10_000 + 1);
    node.answer(NAMES, { pods: 1, addresses: 1 });
    expect(node.size).toBe(1000 + 1);
  });
});

describe("names of global Services", () => {
  const zone = { origin: "clusterset.local.", ttl: 5, isReverse: true };

  function fill(names: number, addressOf: (at: number) => string): RecordTree {
    const tree = new RecordTree();
    tree.addZone({ origin: zone.origin, negativeTtl: 5, serial: 1 });
    tree.put("zone", zoneContribution(zone));
    for (let at = 0; at < names; at++) {
      const metadata = { namespace: `ns-${at % 100}`, name: `s${at}` };
      const spec = { type: "ClusterSetIP" as const, ports: [{ port: 80 }], ips: [addressOf(at)] };
      tree.put(`s${at}`, serviceContribution(zone, { metadata, spec }, []));
    }
    return tree;
  }

  it.each<[string, (at: number) => string]>([
    ["with an address each", (at) => `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`],
    ["that all claim one address", () => "10.0.0.1"],
  ])(
    "%s cost as much as there are, to serve and to remove",
    async (_, addressOf) => {
      await expectLinear(
        (it) => it,
        (names) => {
          const tree = fill(names, addressOf);
          const name = serviceName(zone, objectKey(`ns-${(names - 1) % 100}`, `s${names - 1}`)) ?? "";
          expect(tree.find(name)?.map((it) => it.type)).toContain(TYPE.A);
          for (let at = 0; at < names; at++) tree.remove(`s${at}`);
          expect(tree.find(name)).toBeUndefined();
        },
      );
    },
    TIMEOUT_MS,
  );
});
