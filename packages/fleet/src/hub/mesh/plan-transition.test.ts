import { describe, expect, it } from "vitest";
import { dueInMs, planTransition, type Progress, TRANSITION_MS } from "./plan-transition.ts";

const NOW = Date.parse("2026-06-01T12:00:00Z");
const NOW_TEXT = "2026-06-01T12:00:00Z";
const since = (agoMs: number) => new Date(NOW - agoMs).toISOString().replace(".000", "");

type View = Parameters<typeof planTransition>[0];
type Phase = NonNullable<NonNullable<NonNullable<View["before"]>["transition"]>>["phase"];

const CONNECTED = { isConnected: true, hasLostPaths: false, isEstablished: false, steps: [] };
const CUT = { isConnected: false, hasLostPaths: true };

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
    ...CONNECTED,
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
    [
      "has fleet addresses from the beginning where the others have no other ones",
      planned("none", { isEstablished: true }),
      "done",
    ],
    ["waits until it is ready", planned("prepare", all(undefined, "Ready")), "prepare"],
    ["waits until all are ready", planned("prepare", all("Ready", undefined)), "prepare"],
    ["changes when all are ready", planned("prepare", all("Ready", "InUse", "Ready")), "switch"],
    [
      "does not wait for ever for the pods of others",
      planned("prepare", { ...all(undefined, undefined), agoMs: TRANSITION_MS }),
      "switch",
    ],
    [
      "waits for paths between all members",
      planned("prepare", { ...all("Ready", "Ready"), isConnected: false }),
      "prepare",
    ],
    [
      "waits for paths for as long as it takes",
      planned("prepare", { ...all("Ready", "Ready"), isConnected: false, agoMs: 100 * TRANSITION_MS }),
      "prepare",
    ],
    ["goes back when paths are lost", planned("switch", { ...all("InUse", "InUse"), ...CUT }), "prepare"],
    [
      "does not go back for a member that has only begun to come",
      planned("switch", { ...all("Ready", undefined), isConnected: false }),
      "switch",
    ],
    [
      "changes until all others say so, too: before that all can go back",
      planned("switch", all("InUse", "Ready")),
      "switch",
    ],
    [
      "changes until all others have changed for as long",
      planned("switch", {
        ...all("InUse", "InUse"),
        steps: [{ phase: "switch", since: since(4000) }],
      }),
      "switch",
    ],
    ["has fleet addresses only, also if paths are lost later", planned("done", CUT), "done"],
    [
      "changes until it says that its exports have fleet addresses",
      planned("switch", all("Ready")),
      "switch",
    ],
    ["gives importers the time to see it", planned("switch", { ...all("InUse"), agoMs: 4000 }), "switch"],
    ["has fleet addresses only then", planned("switch", { ...all("InUse"), agoMs: 5000 }), "done"],
    ["changes for ten minutes at most", planned("switch", { ...all("Ready"), agoMs: TRANSITION_MS }), "done"],
    ["stays so", planned("done", all(undefined)), "done"],
    [
      "waits for paths if the profile returns to fleet addresses",
      planned("leave", { ...all("Ready"), isConnected: false }),
      "prepare",
    ],
    ["returns to fleet addresses when the profile does", planned("leave", all("Ready")), "switch"],
  ])("%s", (_what, phase, expected) => {
    expect(phase).toBe(expected);
  });

  it("keeps the time of a step, and begins the next one now", () => {
    const before = { transition: { phase: "prepare" as const, since: since(1000) } };
    const view = { mode: "parallel" as const, before, isRoutable: true, nowMs: NOW, ...CONNECTED };
    expect(planTransition({ ...view, own: undefined, all: [undefined] })).toEqual(before.transition);
    expect(planTransition({ ...view, own: "Ready", all: ["Ready"] })).toEqual({
      phase: "switch",
      since: NOW_TEXT,
    });
  });

  it("that went back begins again when paths have lasted for longer each time, ten minutes at most", () => {
    type Step = NonNullable<NonNullable<View["before"]>["transition"]>;
    const view = { mode: "parallel" as const, isRoutable: true, ...all("Ready", "Ready"), ...CONNECTED };
    const next = (transition: Step, nowMs: number, more: Partial<View> = {}) =>
      planTransition({ ...view, before: { transition }, nowMs, ...more }) as Step;
    let step: Step = { phase: "switch", since: NOW_TEXT };
    let nowMs = NOW;
    const holdsMs = [1, 2, 3, 4, 5, 6, 7, 8].map((returns) => {
      step = next(step, nowMs, CUT);
      expect(step).toMatchObject({ phase: "prepare", returns });
      const dueMs = dueInMs({ ...step, since: since(NOW - nowMs - 5000) }, nowMs);
      expect(dueMs).toBeGreaterThan(0);
      const beganMs = nowMs;
      while (step.phase === "prepare") step = next(step, (nowMs += 5000));
      return nowMs - beganMs;
    });
    expect(holdsMs).toEqual([15, 30, 60, 120, 240, 480, 600, 600].map((it) => it * 1000));
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
