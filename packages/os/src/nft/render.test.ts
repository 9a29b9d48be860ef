import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { diffTable } from "./diff.ts";
import { parseTable } from "./parse.ts";
import { renderScript } from "./render.ts";
import { chainRef, rule, setRef } from "./rule.ts";
import type { NftTable, NftTableName } from "./state.ts";

const NAME: NftTableName = { family: "inet", name: "example" };

/** A chain of each kind, and a set or map of each kind of key and value. */
const BEFORE: NftTable = {
  chains: new Map([
    ["refuse", { rules: [rule`meta l4proto tcp reject with tcp reset`, rule`reject`] }],
    [
      "prerouting",
      {
        hook: { type: "nat", hook: "prerouting", priority: -100 },
        rules: [
          rule`ip saddr ${setRef("clients")} ip daddr . meta l4proto . th dport vmap ${setRef("services")}`,
          rule`ip6 daddr ${setRef("virtual")} goto ${chainRef("refuse")}`,
        ],
      },
    ],
  ]),
  sets: new Map([
    [
      "clients",
      {
        key: ["ipv4_addr"],
        interval: true,
        elements: new Map([
          ["10.244.0.0/16", ""],
          ["192.0.2.1", ""],
        ]),
      },
    ],
    ["virtual", { key: ["ipv6_addr"], elements: new Map([["fd00:96::1", ""]]) }],
    [
      "services",
      {
        key: ["ipv4_addr", "inet_proto", "inet_service"],
        value: "verdict",
        elements: new Map([["10.96.0.1 . tcp . 80", "goto refuse"]]),
      },
    ],
    [
      "endpoints",
      {
        key: ["integer", "ipv4_addr", "inet_proto", "inet_service"],
        value: ["ipv4_addr", "inet_service"],
        elements: new Map([["0 . 10.96.0.1 . tcp . 80", "10.244.0.2 . 8080"]]),
      },
    ],
    ["affinity", { key: ["ipv4_addr"], value: ["ipv4_addr"], dynamic: true, elements: new Map() }],
  ]),
};

const withSet = (name: string, ...elements: readonly (readonly [string, string])[]): NftTable => {
  const set = BEFORE.sets.get(name);
  if (set === undefined) throw new Error(`no set ${name}`);
  return { ...BEFORE, sets: new Map([...BEFORE.sets, [name, { ...set, elements: new Map(elements) }]]) };
};
const OTHER_ENDPOINT = withSet("endpoints", ["0 . 10.96.0.1 . tcp . 80", "10.244.0.3 . 8080"]);
/** nft 1.0.6 adds no rules to a table with a set declared by `typeof`, so the table is replaced. */
const OTHER_RULE: NftTable = {
  ...BEFORE,
  chains: new Map([...BEFORE.chains, ["refuse", { rules: [rule`drop`] }]]),
};

it.each([
  ["created", undefined, BEFORE],
  ["other-endpoint", BEFORE, OTHER_ENDPOINT],
  ["other-rule", BEFORE, OTHER_RULE],
  ["deleted", BEFORE, undefined],
])("the nft script for a table: %s", async (name, actual, desired) => {
  await expect(renderScript(NAME, diffTable(actual, desired))).toMatchFileSnapshot(`goldens/${name}.nft`);
});

/** `goldens/created.json` is what nft lists after it has run `goldens/created.nft`; test/lab/nft-exec.test.ts compares. */
it("a table that nft lists is read as it was written", () => {
  const listed = parseTable(readFileSync(new URL("goldens/created.json", import.meta.url), "utf8"));
  expect(diffTable(listed, BEFORE)).toEqual([]);
});
