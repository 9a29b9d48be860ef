import { expect, it } from "vitest";
import { goneFlows } from "./stale-flows.ts";

it("ends flows that went out untranslated before a UDP port had endpoints, unless such packets are refused", () => {
  const key = "0 . 10.96.0.1 . udp . 53";
  const desired = new Map([["endpoints-4", new Map([[key, "10.0.0.1 . 53"]])]]);
  const changed = new Map([["endpoints-4", new Set([key])]]);
  expect(goneFlows(new Map(), desired, changed)).toEqual([
    { protocol: "udp", address: "10.96.0.1", port: 53, endpoint: { address: "10.96.0.1", port: 53 } },
  ]);
  expect(goneFlows(new Map(), desired, changed, { isClosed: true })).toEqual([]);
});
