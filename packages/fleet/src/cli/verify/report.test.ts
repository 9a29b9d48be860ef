import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { Check, Finding, Result } from "./probes.ts";
import { renderVerification, VERIFY_OUTPUTS } from "./report.ts";
import { failedProbe, parseFindings } from "./results.ts";

function result(from: string, to: string, check: Check, more: Partial<Result> = {}): Result {
  return { from, to, check, family: "IPv4", status: "passed", ms: 3, detail: "", ...more };
}

const RESULTS: readonly Result[] = [
  result("member-10", "member-2", "tcp", { detail: "seen as 10.1.0.7" }),
  result("member-2", "member-10", "mtu", { family: "IPv6", mtu: 1420, detail: "1420 bytes" }),
  result("member-2", "member-10", "mtu", { mtu: 1440, detail: "1440 bytes" }),
  result("member-2", "member-10", "tcp"),
  result("member-2", "member-10", "tcp", { family: "IPv6", status: "failed", detail: "no answer in time" }),
  result("member-2", "member-10", "icmp", { status: "skipped", ms: 0, detail: "may not" }),
  result("member-2", "member-10", "service-tcp", {
    status: "failed",
    detail: 'the pod of "<x>" answers\u0007',
  }),
  ...failedProbe("member-10", [{ name: "member-3", number: 3, image: "" }], "no ServiceImport service-3"),
];

describe("the report of a verification", () => {
  it.each(VERIFY_OUTPUTS)("has all that people or programs need: %s", async (output) => {
    const text = renderVerification({ run: "abc", results: RESULTS }, output);
    await expect(`${text}\n`).toMatchFileSnapshot(`goldens/report.${output}`);
  });

  it("says the same in JSON and YAML", () => {
    const of = { run: "abc", results: RESULTS };
    expect(parse(renderVerification(of, "yaml"))).toEqual(JSON.parse(renderVerification(of, "json")));
  });
});

describe("the log of a probe", () => {
  const finding: Finding = { to: "west", check: "udp", family: "IPv6", status: "passed", ms: 1, detail: "" };
  const line = JSON.stringify(finding);

  it("is read by its lines of JSON; others, such as warnings of the runtime, are left out", () => {
    const text = `(node:1) Warning: {x\n${line}\n{"to":1}\n{"check":"none"}\n${line}\ndone\n`;
    expect(parseFindings(text)).toEqual([finding, finding]);
  });

  it.each([
    ["", "none"],
    [`${line}\nerror: unknown command 'probe'\n`, "error: unknown command 'probe'"],
  ])("that does not come to its end is an error with its last line", (text, last) => {
    expect(() => parseFindings(text)).toThrow(`it ended early; last line: ${last}`);
  });

  it("that is empty because its pod was killed is an error with the reason of the pod and of its container", () => {
    const state = { terminated: { exitCode: 137, reason: "OOMKilled" } };
    const status = { reason: "Evicted", containerStatuses: [{ name: "verify", state }] } as NonNullable<
      Pod["status"]
    >;
    expect(() => parseFindings("", { status })).toThrow(
      "it ended early (Evicted, OOMKilled, exit code 137); last line: none",
    );
  });
});
