import { expect, it } from "vitest";
import { type HubState, HUB_STATES } from "#api/fairlead.dev/hub-move.ts";
import { planMove, stateWith } from "./journal.ts";

const ALL: readonly (HubState | undefined)[] = [undefined, ...HUB_STATES];
const every = ALL.flatMap((from) => ALL.map((to) => [from, to] as const));

it.each([
  [undefined, undefined, "copy"],
  ["Sending", undefined, "copy"],
  ["Sending", "Receiving", "copy"],
  ["Retired", "Receiving", "send"],
  ["Retired", "Active", "send"],
  ["Active", "Retired", "copy"],
  ["Sending", "Retired", "copy"],
] as const)("a move in states %s and %s continues with %s", (from, to, kind) => {
  expect(planMove(from, to).kind).toBe(kind);
});

it.each([
  [undefined, "Sending"],
  ["Receiving", "Sending"],
  ["Retired", "Sending"],
] as const)("the way back to a hub in state Sending copies nothing (the copy is %s)", (from, to) => {
  expect(planMove(from, to)).toEqual({ kind: "send" });
});

it("is never a copy into a hub that has the fleet, nor of an incomplete one", () => {
  for (const [from, to] of every) {
    if (planMove(from, to).kind !== "copy") continue;
    expect([undefined, "Active", "Sending"]).toContain(from);
    expect([undefined, "Receiving", "Retired"]).toContain(to);
  }
});

it("is possible in one direction from all states in which a hub has the fleet", () => {
  const reached = [
    ["Sending", undefined],
    ["Sending", "Receiving"],
    ["Retired", "Receiving"],
    ["Retired", "Active"],
    ["Retired", "Sending"],
    ["Receiving", "Sending"],
    ["Receiving", "Retired"],
    ["Active", "Retired"],
  ] as const;
  for (const [from, to] of reached) {
    expect([planMove(from, to).kind, planMove(to, from).kind]).toContainEqual(
      expect.not.stringMatching("refuse"),
    );
  }
});

it("of a hub that is in a move with another one is refused, unless that one has ended", () => {
  const journal = { peer: "x", peerServer: "https://x" };
  expect(stateWith({ ...journal, state: "Active" }, "--from", "y")).toBeUndefined();
  expect(stateWith({ ...journal, state: "Retired" }, "--from", "x")).toBe("Retired");
  expect(() => stateWith({ ...journal, state: "Retired" }, "--from", "y")).toThrow(
    /in a move to or from https:\/\/x/,
  );
});
