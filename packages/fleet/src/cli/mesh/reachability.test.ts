import { expect, it } from "vitest";
import type { Check, Result } from "../verify/probes.ts";
import { reachability } from "./reachability.ts";

const result = (check: Check, more: Partial<Result> = {}): Result => ({
  from: "east",
  to: "west",
  check,
  family: "IPv4",
  status: "failed",
  ms: 1,
  detail: "no answer within 2000 ms",
  ...more,
});

it("says once what failed between two clusters for one reason, in all checks and families", () => {
  const results = [
    result("udp"),
    result("udp", { family: "IPv6" }),
    result("mtu"),
    result("tcp", { status: "passed" }),
    result("mtu", { status: "skipped" }),
    result("large", { detail: "connection refused" }),
  ];
  expect(reachability(results).map((it) => it.message)).toEqual([
    "mtu and udp over IPv4 and IPv6 from pods of east to pods of west: no answer within 2000 ms; check routes and firewalls between the clusters, or use network.mode parallel",
    "large over IPv4 from pods of east to pods of west: connection refused; check routes and firewalls between the clusters, or use network.mode parallel",
  ]);
});

it("does not blame the network where pods did not run", () => {
  const detail = "the server pod in west is not ready: ErrImagePull";
  expect(reachability([result("import", { detail })])).toEqual([
    {
      check: "reachability",
      status: "failed",
      message: `no packets tried from pods of east to pods of west: ${detail}`,
    },
  ]);
});
