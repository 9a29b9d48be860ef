import { describe, expect, it } from "vitest";
import { TRAFFIC_ANNOTATIONS as NAMES } from "#api/fairlead.dev/names.ts";
import { type ExportTraffic, readTraffic } from "./traffic.ts";

const mcs = (of: Partial<Record<keyof typeof NAMES, string>>, before?: ExportTraffic) =>
  readTraffic({ mcs: annotate(of), fleet: undefined }, before);
const annotate = (of: Partial<Record<keyof typeof NAMES, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(of).map(([key, text]) => [NAMES[key as keyof typeof NAMES], text]));

describe("annotations of an export (C3)", () => {
  it("set nothing if absent", () => {
    expect(readTraffic({ mcs: undefined, fleet: {} }, undefined)).toEqual({ traffic: {}, problems: [] });
  });

  it.each([
    [{ weight: "0" }, { weight: 0 }],
    [
      { weight: "1000", priority: "7" },
      { weight: 1000, priority: 7 },
    ],
    [{ affinity: "local" }, { affinity: "local" }],
    [
      { affinity: "none", priority: "0" },
      { affinity: "none", priority: 0 },
    ],
    [{ exportTo: "b, a,b" }, { exportTo: ["a", "b"] }],
  ])("%j ask for %j", (of, traffic) => {
    expect(mcs(of)).toEqual({ traffic, problems: [] });
  });

  it.each([
    [{ weight: "1001" }, "fairlead.dev/weight: the weight must be a whole number from 0 to 1000"],
    [{ priority: "-1" }, "fairlead.dev/priority: must be a whole number from 0 to 1000"],
    [{ priority: "1e2" }, 'got "1e2"'],
    [{ affinity: "Local" }, "fairlead.dev/affinity: must be one of none, local, remote"],
    [{ exportTo: "" }, "fairlead.dev/export-to: must be a comma-separated list of members"],
    [{ exportTo: "a,,b" }, "fairlead.dev/export-to: must be a comma-separated list of members"],
    [{ exportTo: "A" }, 'got "A"'],
  ])("%j are refused by name, and the last valid value holds", (of, reported) => {
    const before: ExportTraffic = { weight: 5, priority: 2, affinity: "remote", exportTo: ["x"] };
    const { traffic, problems } = mcs(of, before);
    const [key] = Object.keys(of) as (keyof ExportTraffic)[];
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(reported);
    expect(problems[0]).toContain(`; using ${String(before[key ?? "weight"])}`);
    expect(traffic).toEqual({ [key ?? ""]: before[key ?? "weight"] });
  });

  it("keep the defaults on a new export if they cannot be parsed, but allow no member", () => {
    const { traffic, problems } = mcs({ weight: "x", exportTo: "b;c" });
    expect(traffic).toEqual({ exportTo: [] });
    expect(problems).toEqual([
      'fairlead.dev/weight: the weight must be a whole number from 0 to 1000, got "x"; using the default',
      'fairlead.dev/export-to: must be a comma-separated list of members, got "b;c"; using no other cluster',
    ]);
  });

  it("that cannot be read on an export that was open leave it open", () => {
    expect(mcs({ exportTo: "b;c" }, {})).toEqual({
      traffic: {},
      problems: [expect.stringContaining("using every member")],
    });
  });

  it("of both APIs are those of the multi-cluster one; the fleet API has a separate weight", () => {
    const both = {
      mcs: annotate({ priority: "1" }),
      fleet: annotate({ priority: "2", affinity: "local", weight: "9" }),
    };
    expect(readTraffic(both, undefined).traffic).toEqual({ priority: 1, affinity: "local" });
  });
});
