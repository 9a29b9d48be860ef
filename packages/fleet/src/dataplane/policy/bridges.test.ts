import { expect, it } from "vitest";
import { unseenBridges } from "./bridges.ts";

const BRIDGE = new Map([["cni0", 3]]);

it.each<[string, Parameters<typeof unseenBridges>[0], boolean]>([
  ["without bridges", { bridges: new Map(), filters: [undefined, undefined] }, false],
  ["at a bridge with one port", { bridges: new Map([["docker0", 1]]), filters: ["0", "0"] }, false],
  [
    "where the kernel passes packets of bridges to its filters",
    { bridges: BRIDGE, filters: ["1", "1"] },
    false,
  ],
  ["without the module", { bridges: BRIDGE, filters: [undefined, undefined] }, true],
  ["where one family is switched off", { bridges: BRIDGE, filters: ["1", "0"] }, true],
])("pods of one node %s", (_, facts, isUnseen) => {
  expect(unseenBridges(facts) !== undefined).toBe(isUnseen);
  if (isUnseen) expect(unseenBridges(facts)).toContain("(cni0)");
});
