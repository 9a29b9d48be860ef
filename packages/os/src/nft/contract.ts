import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { byText } from "@fairlead/base/text.ts";
import { diffTable } from "./diff.ts";
import type { NftDriver } from "./driver.ts";
import { chainRef, type NftRule, rule, setRef } from "./rule.ts";
import type { NftChain, NftSet, NftTable, NftTableName } from "./state.ts";

/** The contract of every back end of the nft driver. `make` returns one whose kernel has none of our tables. */
export function describeNftDriver(
  name: string,
  make: () => Promise<NftDriver>,
  options: { readonly runs: number },
): void {
  const table: NftTableName = { family: "inet", name: "contract" };
  const signal = AbortSignal.timeout(110_000);

  describe(name, () => {
    let nft: NftDriver;
    beforeEach(async () => {
      nft = await make();
    });
    afterEach(async () => {
      const left = await nft.read(table, signal);
      await nft.apply(table, diffTable(left, undefined), signal);
      nft[Symbol.dispose]();
    });

    const become = async (desired: NftTable | undefined): Promise<NftTable | undefined> => {
      await nft.apply(table, diffTable(await nft.read(table, signal), desired), signal);
      return nft.read(table, signal);
    };
    const change = async (from: NftTable, to: NftTable): Promise<void> =>
      nft.apply(table, diffTable(from, to), signal);

    it("reads an absent table as undefined", async () => {
      expect(await nft.read(table, signal)).toBeUndefined();
    });

    it("makes any state out of any other, and finds nothing to change then", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(arbitraryTable(), { minLength: 1, maxLength: 4 }), async (states) => {
          for (const state of states) {
            const read = await become(state);
            expect(comparable(read)).toEqual(comparable(state));
            expect(diffTable(read, state)).toEqual([]);
          }
        }),
        { numRuns: options.runs },
      );
    });

    it("changes elements of every type of key and value", async () => {
      for (const kind of Object.keys(SETS)) {
        const [first, second, third] = SETS[kind]!.entries;
        const before = tableWith(kind, [first!, second!]);
        const changed = [first![0], second![1]] as const;
        const after = tableWith(kind, [changed, third!]);
        await become(before);
        await change(before, after);
        expect(comparable(await nft.read(table, signal))).toEqual(comparable(after));
      }
    });

    it("takes thousands of elements in one transaction", async () => {
      const elements = Array.from(
        { length: 3000 },
        (_, at) => [`${at} . 10.0.0.1 . tcp . 80`, `10.1.${at >> 8}.${at & 255} . 8080`] as const,
      );
      const empty = tableWith("data-v4", []);
      const full = tableWith("data-v4", elements);
      await become(empty);
      await change(empty, full);
      expect((await nft.read(table, signal))?.sets.get("data-v4")?.elements.size).toBe(3000);
      await change(full, empty);
      expect((await nft.read(table, signal))?.sets.get("data-v4")?.elements.size).toBe(0);
    });

    it("refuses to add an element that is there, and then changes nothing", async () => {
      const [first, second, third] = SETS["data-v4"]!.entries;
      const before = tableWith("data-v4", [first!, second!]);
      await become(before);
      // As if our record lacked `second`.
      const wrong = diffTable(
        tableWith("data-v4", [first!]),
        tableWith("data-v4", [third!, [second![0], third![1]]]),
      );
      await expect(nft.apply(table, wrong, signal)).rejects.toMatchObject({ code: "NFT_EXISTS" });
      expect(comparable(await nft.read(table, signal))).toEqual(comparable(before));
    });

    it("refuses to delete an element that is not there, and then changes nothing", async () => {
      const [first, second, third] = SETS["data-v4"]!.entries;
      const before = tableWith("data-v4", [first!]);
      await become(before);
      const wrong = diffTable(tableWith("data-v4", [first!, second!]), tableWith("data-v4", [third!]));
      await expect(nft.apply(table, wrong, signal)).rejects.toMatchObject({ code: "NFT_NOT_FOUND" });
      expect(comparable(await nft.read(table, signal))).toEqual(comparable(before));
    });

    it("refuses elements of a set that is not there, and of a table that is not there", async () => {
      const [first] = SETS["data-v4"]!.entries;
      const add = diffTable(tableWith("data-v4", []), tableWith("data-v4", [first!]));
      await expect(nft.apply(table, add, signal)).rejects.toMatchObject({ code: "NFT_NOT_FOUND" });
      await become({ chains: new Map(), sets: new Map() });
      await expect(nft.apply(table, add, signal)).rejects.toMatchObject({ code: "NFT_NOT_FOUND" });
    });

    it("refuses a verdict that leads to a chain that is not there", async () => {
      const before = tableWith("verdicts", []);
      await become(before);
      const wrong = diffTable(before, tableWith("verdicts", [["10.0.0.1 . tcp . 80", "goto nowhere"]]));
      await expect(nft.apply(table, wrong, signal)).rejects.toMatchObject({ code: "NFT_NOT_FOUND" });
    });

    it("refuses an element that is not in canonical text before anything reaches the kernel", async () => {
      const before = tableWith("data-v4", []);
      await become(before);
      for (const [key, value] of [
        ["0 . 10.0.0.1 . tcp . 80 }; flush ruleset; {", "10.0.0.1 . 80"],
        ["0 . 10.0.0.1 . tcp . 080", "10.0.0.1 . 80"],
        ["0 . 10.0.0.1 . tcp . 80", "10.0.0.1 . 65536"],
        ["0 . fd00::1 . tcp . 80", "10.0.0.1 . 80"],
      ] as const) {
        const ops = diffTable(before, tableWith("data-v4", [[key, value]]));
        await expect(nft.apply(table, ops, signal)).rejects.toMatchObject({
          code: expect.stringMatching(/OPTION_INVALID|ADDRESS_INVALID/) as string,
        });
      }
      expect(comparable(await nft.read(table, signal))).toEqual(comparable(before));
    });
  });
}

type Entry = readonly [key: string, value: string];

/** Every kind of set in use, each with three elements. */
const SETS: Readonly<Record<string, Omit<NftSet, "elements"> & { readonly entries: readonly Entry[] }>> = {
  "data-v4": {
    key: ["integer", "ipv4_addr", "inet_proto", "inet_service"],
    value: ["ipv4_addr", "inet_service"],
    entries: [
      ["0 . 10.0.0.1 . tcp . 80", "10.1.0.1 . 8080"],
      ["4294967295 . 10.0.0.1 . udp . 53", "10.1.0.2 . 5353"],
      ["65536 . 255.255.255.255 . sctp . 65535", "10.1.0.3 . 1"],
    ],
  },
  "data-v6": {
    key: ["integer", "ipv6_addr", "inet_proto", "inet_service"],
    value: ["ipv6_addr", "inet_service"],
    entries: [
      ["0 . fd00::1 . tcp . 80", "fd00:1::1 . 8080"],
      ["1 . fd00::1 . tcp . 80", "fd00:1::2 . 8080"],
      ["258 . 1:2:3:4:5:6:7:8 . udp . 53", "::1 . 65535"],
    ],
  },
  verdicts: {
    key: ["ipv4_addr", "inet_proto", "inet_service"],
    value: "verdict",
    entries: [
      ["10.0.0.1 . tcp . 80", "goto target-a"],
      ["10.0.0.2 . tcp . 80", "goto target-b"],
      ["10.0.0.3 . 47 . 80", "jump target-a"],
    ],
  },
  pairs: {
    key: ["ipv6_addr", "ipv6_addr"],
    entries: [
      ["fd00::1 . fd00::1", ""],
      ["fd00::2 . fd00::2", ""],
      ["fd00::3 . fd00::3", ""],
    ],
  },
  marks: {
    key: ["inet_service", "ipv4_addr", "inet_service"],
    value: ["mark"],
    entries: [
      ["3478 . 192.0.2.1 . 4711", "1"],
      ["3478 . 192.0.2.1 . 4712", "4294967295"],
      ["3479 . 192.0.2.1 . 4711", "258"],
    ],
  },
  "by-mark": {
    key: ["mark"],
    value: ["ipv6_addr"],
    entries: [
      ["0", "fd00::1"],
      ["2097153", "fd00::2"],
      ["4294967295", "fd00::3"],
    ],
  },
  addresses: {
    key: ["ipv4_addr"],
    entries: [
      ["10.0.0.1", ""],
      ["10.0.0.2", ""],
      ["10.0.0.3", ""],
    ],
  },
  ranges: {
    key: ["ipv4_addr", "inet_proto", "inet_service", "ipv4_addr"],
    interval: true,
    entries: [
      ["10.0.0.1 . tcp . 80 . 192.0.2.0/24", ""],
      ["10.0.0.2 . tcp . 80 . 0.0.0.0/0", ""],
      ["10.0.0.1 . udp . 80 . 192.0.2.7", ""],
    ],
  },
  prefixes: {
    key: ["ipv6_addr"],
    interval: true,
    entries: [
      ["fd00:1::/32", ""],
      ["fd00:2::1", ""],
      ["fd00:3::/64", ""],
    ],
  },
};

/** Chains that verdicts lead to are in every state. */
const TARGETS: readonly (readonly [string, NftChain])[] = [
  ["target-a", { rules: [] }],
  ["target-b", { rules: [rule`meta l4proto tcp accept`] }],
];

/** Rules that look elements of a concatenation up. */
const CHOOSERS: readonly (readonly [string, NftRule])[] = [
  [
    "data-v4",
    rule`dnat ip to numgen random mod 2 . ip daddr . meta l4proto . th dport map ${setRef("data-v4")}`,
  ],
  [
    "data-v6",
    rule`dnat ip6 to jhash ip6 saddr mod 61 . ip6 daddr . meta l4proto . th dport map ${setRef("data-v6")}`,
  ],
  ["verdicts", rule`ip daddr . meta l4proto . th dport vmap ${setRef("verdicts")}`],
];

function tableWith(kind: string, elements: readonly Entry[]): NftTable {
  const { entries: _, ...spec } = SETS[kind]!;
  return { chains: new Map(TARGETS), sets: new Map([[kind, { ...spec, elements: new Map(elements) }]]) };
}

function arbitraryTable(): fc.Arbitrary<NftTable> {
  const sets = fc
    .subarray(Object.keys(SETS))
    .chain((kinds) =>
      fc.tuple(...kinds.map((kind) => arbitrarySet(kind).map((set) => [kind, set] as const))),
    );
  const chains = fc.subarray<readonly [string, NftChain]>([
    ["first", { hook: { type: "filter", hook: "input", priority: 10 }, rules: [rule`ct state new accept`] }],
    ["second", { rules: [rule`goto ${chainRef("target-a")}`, rule`drop`] }],
    ["second", { rules: [rule`drop`] }],
    ["third", { hook: { type: "nat", hook: "output", priority: -100 }, rules: [] }],
  ]);
  return fc.tuple(sets, chains, fc.boolean()).map(([someSets, someChains, choosing]) => {
    const table = { chains: new Map([...TARGETS, ...someChains]), sets: new Map(someSets) };
    // A rule that refers to a set is there at most when the set is.
    if (table.sets.has("addresses"))
      table.chains.set("user", { rules: [rule`ip saddr ${setRef("addresses")} accept`] });
    for (const [kind, choose] of CHOOSERS)
      if (choosing && table.sets.has(kind)) table.chains.set(`choose-${kind}`, { rules: [choose] });
    return table;
  });
}

function arbitrarySet(kind: string): fc.Arbitrary<NftSet> {
  const { entries, ...spec } = SETS[kind]!;
  const values = entries.map(([, value]) => value);
  return fc
    .tuple(fc.subarray(entries.map(([key]) => key)), fc.infiniteStream(fc.constantFrom(...values)))
    .map(([keys, stream]) => {
      const elements = new Map(keys.map((key) => [key, stream.next().value as string]));
      return { ...spec, elements };
    });
}

/** Maps in a fixed order and rules by digest, so that states compare as values. */
function comparable(table: NftTable | undefined): unknown {
  if (table === undefined) return undefined;
  return {
    chains: [...table.chains]
      .map(([name, { hook, rules }]) => ({ name, hook, rules: rules.map((it) => it.digest) }))
      .toSorted((a, b) => byText(a.name, b.name)),
    sets: [...table.sets]
      .map(([name, { elements, ...spec }]) => ({
        name,
        ...spec,
        elements: [...elements].map(String).toSorted(byText),
      }))
      .toSorted((a, b) => byText(a.name, b.name)),
  };
}
