import * as fc from "fast-check";
import { expect, it } from "vitest";
import { diffTable } from "./diff.ts";
import { TableDraft } from "./draft.ts";
import { createFakeNft } from "./fake.ts";
import { chainRef, rule } from "./rule.ts";
import type { NftTable, NftTableName } from "./state.ts";

const TABLE: NftTableName = { family: "inet", name: "t" };
const NAMES = fc.constantFrom("a", "b", "c");
const RULES = fc.constantFrom(
  [],
  [rule`drop`],
  [rule`accept`, rule`drop`],
  [rule`goto ${chainRef("target")}`],
);

const CHANGE: fc.Arbitrary<(draft: TableDraft) => void> = fc.oneof(
  fc.tuple(NAMES, fc.option(RULES)).map(([name, rules]) => (draft: TableDraft) => {
    draft.setChain(name, rules === null ? undefined : { rules });
  }),
  NAMES.map((name) => (draft: TableDraft) => draft.addSet(name, { key: ["ipv4_addr"] })),
  NAMES.map((name) => (draft: TableDraft) => draft.removeSet(name)),
  fc
    .tuple(NAMES, fc.constantFrom("10.0.0.1", "10.0.0.2"), fc.boolean())
    .map(([name, key, isThere]) => (draft: TableDraft) => {
      if (draft.whole.sets.has(name)) draft.setElement(name, key, isThere ? "" : undefined);
    }),
);

/** As values. */
function contents({ chains, sets }: NftTable): unknown {
  return {
    chains: new Map([...chains].map(([name, { rules }]) => [name, rules.map((it) => it.digest)])),
    sets: new Map([...sets].map(([name, { elements }]) => [name, new Set(elements.keys())])),
  };
}

it("the changes of a draft bring the kernel to the whole of it, whatever was changed and however often", async () => {
  const signal = AbortSignal.timeout(20_000);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(CHANGE, { maxLength: 6 }), { maxLength: 6 }), async (rounds) => {
      const draft = new TableDraft();
      draft.setChain("target", { rules: [] });
      const nft = createFakeNft();
      await nft.apply(TABLE, diffTable(undefined, draft.whole), signal);
      draft.takeChanges();
      for (const changes of rounds) {
        for (const change of changes) change(draft);
        const { before, after } = draft.takeChanges();
        const ops = diffTable(before, after);
        // A set cannot change its kind here, so that the table is never recreated.
        expect(ops.some((it) => it.verb === "delete-table")).toBe(false);
        await nft.apply(TABLE, ops, signal);
        expect(contents((await nft.read(TABLE, signal)) ?? draft.whole)).toEqual(contents(draft.whole));
        expect(diffTable(...differences(draft))).toEqual([]);
      }
    }),
    { numRuns: 300 },
  );
});

function differences(draft: TableDraft): [NftTable, NftTable] {
  const { before, after } = draft.takeChanges();
  return [before, after];
}
