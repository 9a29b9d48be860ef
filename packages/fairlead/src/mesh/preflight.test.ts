import { describe, expect, it } from "vitest";
import { probedContexts } from "./preflight.ts";

const planFor = (mode: "flat" | "parallel") => ({ target: { network: { mode } } });

describe("the contexts of --probe", () => {
  it("are taken once each", () => {
    expect(probedContexts("a,b,,a", planFor("flat"), false)).toEqual(["a", "b"]);
  });

  it.each([
    { what: "one only", text: "a,a", why: "needs at least two contexts" },
    { what: "a command that changes nothing", isDry: true, why: "--what-if changes nothing" },
    { what: "a parallel network", mode: "parallel", why: 'run "fairlead verify" afterwards' },
  ] as const)("are refused with the reason: $what", ({ why, ...it }) => {
    const { text, mode, isDry } = { text: "a,b", mode: "flat", isDry: false, ...it } as const;
    expect(() => probedContexts(text, planFor(mode), isDry)).toThrow(why);
  });
});
