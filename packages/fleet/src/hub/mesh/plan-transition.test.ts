import { describe, expect, it } from "vitest";
import { planTransition, type Progress, TRANSITION_MS } from "./plan-transition.ts";

const NOW = Date.parse("2026-06-01T12:00:00Z");
const NOW_TEXT = "2026-06-01T12:00:00Z";
const since = (agoMs: number) => new Date(NOW - agoMs).toISOString().replace(".000", "");

type View = Parameters<typeof planTransition>[0];
type Phase = NonNullable<NonNullable<NonNullable<View["before"]>["transition"]>>["phase"];

function planned(phase: Phase | "done" | "none", more: Partial<View> & { readonly agoMs?: number } = {}) {
  const { agoMs = 60_000, ...view } = more;
  const transition = phase === "done" || phase === "none" ? undefined : { phase, since: since(agoMs) };
  const result = planTransition({
    mode: "parallel",
    before: phase === "none" ? undefined : { transition },
    isRoutable: true,
    own: undefined,
    all: [],
    nowMs: NOW,
    ...view,
  });
  return result === "left" ? "left" : (result?.phase ?? "done");
}
const all = (...list: Progress[]) => ({ own: list[0], all: list });

describe("a member of a network that becomes parallel", () => {
  it.each<[string, ReturnType<typeof planned>, ReturnType<typeof planned>]>([
    ["begins with pod addresses where these are of use elsewhere", planned("none"), "prepare"],
    [
      "has fleet addresses from the beginning where pods of members have the same addresses",
      planned("none", { isRoutable: false }),
      "done",
    ],
    ["waits until it is ready", planned("prepare", all(undefined, "Ready")), "prepare"],
    ["waits until all are ready", planned("prepare", all("Ready", undefined)), "prepare"],
    ["changes when all are ready", planned("prepare", all("Ready", "InUse", "Ready")), "switch"],
    [
      "does not wait for ever",
      planned("prepare", { ...all(undefined, undefined), agoMs: TRANSITION_MS }),
      "switch",
    ],
    [
      "changes until it says that its exports have fleet addresses",
      planned("switch", all("Ready")),
      "switch",
    ],
    ["gives importers the time to see it", planned("switch", { ...all("InUse"), agoMs: 4000 }), "switch"],
    ["has fleet addresses only then", planned("switch", { ...all("InUse"), agoMs: 5000 }), "done"],
    ["changes for ten minutes at most", planned("switch", { ...all("Ready"), agoMs: TRANSITION_MS }), "done"],
    ["stays so", planned("done", all(undefined)), "done"],
    ["returns to fleet addresses when the profile does", planned("leave", all("Ready")), "switch"],
  ])("%s", (_what, phase, expected) => {
    expect(phase).toBe(expected);
  });

  it("keeps the time of a step, and begins the next one now", () => {
    const before = { transition: { phase: "prepare" as const, since: since(1000) } };
    const view = { mode: "parallel" as const, before, isRoutable: true, nowMs: NOW };
    expect(planTransition({ ...view, own: undefined, all: [undefined] })).toEqual(before.transition);
    expect(planTransition({ ...view, own: "Ready", all: ["Ready"] })).toEqual({
      phase: "switch",
      since: NOW_TEXT,
    });
  });

  it("is not held up for years by a clock that was wrong", () => {
    expect(planned("prepare", { ...all(undefined), agoMs: -1_000_000_000 })).toBe("switch");
  });
});

describe("a member of a network that becomes flat", () => {
  const flat = { mode: "flat" as const };
  it.each<[string, ReturnType<typeof planned>, ReturnType<typeof planned>]>([
    ["has no fleet addresses if it had none", planned("none", flat), "left"],
    [
      "gives its endpoints the addresses of pods first",
      planned("done", { ...flat, ...all("InUse") }),
      "leave",
    ],
    [
      "waits until no member uses fleet addresses",
      planned("leave", { ...flat, ...all("Ready", "InUse") }),
      "leave",
    ],
    ["leaves then", planned("leave", { ...flat, ...all("Ready", undefined) }), "left"],
    ["does not wait for ever", planned("leave", { ...flat, ...all("InUse"), agoMs: TRANSITION_MS }), "left"],
    [
      "gives importers the time to see it",
      planned("leave", { ...flat, ...all("Ready"), agoMs: 4000 }),
      "leave",
    ],
    ["leaves also if it was not ready yet", planned("prepare", { ...flat, ...all(undefined) }), "leave"],
  ])("%s", (_what, phase, expected) => {
    expect(phase).toBe(expected);
  });
});
