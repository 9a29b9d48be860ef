import { describe, expect, it } from "vitest";
import { humanDuration } from "#builtin/duration.ts";
import { normalise } from "./normalise.ts";
import { Tokens } from "./tokens.ts";

const DAY_MS = 24 * 60 * 60_000;
const DATE = "2026-01-01T00:00:00Z";

describe("the normal form of a recorded answer", () => {
  it("has no age of a fixed date, regardless of the present day", () => {
    for (let days = 2; days < 20 * 365; days++)
      for (const hours of [0, 1, 23]) {
        const age = humanDuration(days * DAY_MS + hours * 60 * 60_000);
        expect(normalise({ cells: [age] }, new Tokens([]))).toEqual({ cells: ["<age>"] });
      }
  });

  it("keeps the time between two dates of the scenario", () => {
    expect(normalise({ cells: ["4h5m", "5", "a 3d"] }, new Tokens([]))).toEqual({
      cells: ["4h5m", "5", "a 3d"],
    });
  });

  it("distinguishes addresses and ids that are prefixes of each other", () => {
    const tokens = new Tokens([]);
    expect(normalise(["10.0.7.5", "10.0.7.56", "in use: 10.0.7.56", "fd00::1", "fd00::12"], tokens)).toEqual([
      "<ip 1>",
      "<ip 2>",
      "in use: <ip 2>",
      "<ip 3>",
      "<ip 4>",
    ]);
  });

  it("says after which of the later steps a time was made", () => {
    const made = Date.parse(DATE);
    const tokens = new Tokens([], () => made);
    tokens.beginSecond(made / 1000);
    const times = [-1, 0].map((it) => new Date(made + it * 1000).toISOString().replace(".000", ""));
    expect(normalise(times, tokens)).toEqual(["<time>", "<time +1>"]);
  });

  it("keeps a time that the scenario sent, also on the same day and with another fraction", () => {
    const tokens = new Tokens([], () => Date.parse(DATE) + DAY_MS / 2);
    tokens.noteSent("at 2026-01-01T00:00:00.000000Z");
    expect(normalise({ at: DATE, made: "2026-01-01T12:00:00Z" }, tokens)).toEqual({
      at: DATE,
      made: "<time>",
    });
  });
});
