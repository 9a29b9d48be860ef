import { describe, expect, it } from "vitest";
import { trafficManagerOf } from "./traffic.ts";

const defaults = { trafficProvider: "clusterset", trafficZone: "tm.example", trafficTtl: "60" };

describe("--traffic-private-ranges", () => {
  it.each([undefined, "", "none", "10.1.0.0/16, fd12::/64"])("is taken as %j", (trafficPrivateRanges) => {
    expect(trafficManagerOf({ ...defaults, trafficPrivateRanges })).toBeTypeOf("function");
  });
  it.each(["10.1.0.1", "all", "10.1.0.0/16,"])("is refused as %j", (trafficPrivateRanges) => {
    expect(() => trafficManagerOf({ ...defaults, trafficPrivateRanges })).toThrow(
      "--traffic-private-ranges must be networks such as 10.1.0.0/16, or none",
    );
  });
});
