import { describe, expect, it } from "vitest";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { renderScript } from "@fairlead/os/nft/render.ts";
import { DEFAULT_SPEC, type LabTopology, planTopology } from "#topology.ts";
import {
  checkConditions,
  describeConditions,
  type LinkConditions,
  notable,
  type StoredConditions,
} from "./conditions.ts";
import { LINK_TABLE, linkTable, queueWords } from "./plan.ts";

const ALL: StoredConditions = {
  mtu: 1400,
  delayMs: 20,
  delayBy: "wire",
  lossPercent: 0.5,
  rateBits: 50_000_000,
  dropUdp: true,
  dropUdpFragments: true,
};

function lab(conditions: Readonly<Record<string, StoredConditions>>): LabTopology {
  return { ...planTopology({ ...DEFAULT_SPEC, members: 2, nodes: 2 }, 64), conditions };
}

describe("the conditions of a link", () => {
  it("are kept by one table at each end, which treats what arrives there", async () => {
    const topology = lab({ "member-1": ALL, "member-1-node-2": { lossPercent: 100 } });
    const scripts = ["fabric", "member-1-site", "member-1-node-2"].map((netns) => {
      const script = renderScript(LINK_TABLE, diffTable(undefined, linkTable(topology, netns)));
      return `# ${netns}\n${script}`;
    });
    await expect(scripts.join("\n")).toMatchFileSnapshot("../goldens/links.nft");
  });

  it("need no table where no link with conditions ends, and none for MTU, rate and netem", () => {
    const topology = lab({ "member-1": { mtu: 1400, rateBits: 1_000_000, delayMs: 5, delayBy: "netem" } });
    for (const netns of ["fabric", "member-1-site", "member-2-site"])
      expect(linkTable(topology, netns)).toBeUndefined();
  });

  it("give a device a queue for a rate, and for a delay where the kernel has netem", () => {
    expect(queueWords({ mtu: 1400, lossPercent: 1 })).toBeUndefined();
    expect(queueWords({ delayMs: 20, delayBy: "wire" })).toBeUndefined();
    expect(queueWords(ALL)?.join(" ")).toBe("tbf rate 50000000bit burst 62500 latency 50ms");
    expect(queueWords({ rateBits: 100_000 })?.join(" ")).toBe("tbf rate 100000bit burst 16000 latency 50ms");
    expect(queueWords({ delayMs: 2.5, delayBy: "netem" })?.join(" ")).toBe("netem limit 10000 delay 2500us");
    expect(queueWords({ delayMs: 20, delayBy: "netem", rateBits: 1_000_000 })?.join(" ")).toBe(
      "netem limit 10000 delay 20000us rate 1000000bit",
    );
  });

  it("are named for people; those of an ordinary link have no name", () => {
    expect(describeConditions(ALL)).toBe(
      "mtu 1400, delay 20 ms, loss 0.5 %, rate 50 Mbit/s, drops UDP, drops UDP fragments",
    );
    const ordinary: LinkConditions = { mtu: 1500, delayMs: 0, lossPercent: 0, dropUdp: false };
    expect(describeConditions(ordinary)).toBe("");
    expect(notable(ordinary)).toEqual({});
  });

  it("are refused, all at once, outside their ranges", () => {
    const refuse = () => checkConditions({ mtu: 576, delayMs: -1, lossPercent: 101, rateBits: 0.5 });
    expect(refuse).toThrow(/MTU must be .*1280.*delay .*loss .*rate /);
    expect(() => checkConditions({ mtu: Number.NaN })).toThrow(/MTU/);
    checkConditions(ALL);
  });
});
