import { describe, expect, it } from "vitest";
import { describeLost, formatLost, parseLost } from "./lost-clusters.ts";

describe("clusters whose Lease is not renewed", () => {
  it("are read as they were written, and other text is left out", () => {
    const lost = [
      { cluster: "east", answers: true },
      { cluster: "west", answers: false },
    ];
    expect(parseLost(formatLost(lost))).toEqual(lost);
    expect(parseLost("east,west=maybe,=,north=silent=x")).toEqual([{ cluster: "north", answers: false }]);
    expect([parseLost(undefined), formatLost([])]).toEqual([[], undefined]);
  });

  it.each([
    [
      "an agent that has stopped",
      { answered: ["west"], unanswered: [] },
      /endpoints of the cluster answer west: "fairlead member" does not run there/,
    ],
    [
      "a cluster that is cut off",
      { answered: [], unanswered: ["west"] },
      /no endpoint of the cluster answers west: the cluster is down, or its links are cut/,
    ],
    [
      "an agent, and a link to another member",
      { answered: ["west"], unanswered: ["north"] },
      /answer west: .*; north cannot reach/,
    ],
    [
      "nothing, where no member has endpoints of it",
      { answered: [], unanswered: [] },
      /5 s: importers drop endpoints that do not answer; check/,
    ],
  ])("are described by what others see: %s", (_, witnesses, said) => {
    const text = describeLost(5, witnesses);
    expect(text).toMatch(said);
    expect(text).toContain("the lease was not renewed for 5 s");
  });
});
