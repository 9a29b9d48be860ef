import { describe, expect, it } from "vitest";
import { VERSION } from "@fairlead/base/version.ts";
import { VERSION_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { readFileSync } from "node:fs";
import {
  formatSupport,
  isSupported,
  ownSupport,
  hubSupportAnnotations,
  ownHubSupport,
  parseHubSupport,
  parseSupport,
  releasesOf,
  PROGRAMS_OF_RELEASE,
  RELEASES,
  type Support,
  supportIn,
} from "./kubernetes-support.ts";

const support = (version: string, from = "1.25", to = "1.36"): Support => ({
  version,
  kubernetes: { from, to },
});

describe("the versions of Kubernetes that a program supports", () => {
  it("are those of its release, whatever the patch is", () => {
    expect(ownSupport("member").version).toBe(VERSION);
    expect(supportIn("0.1.7", releasesOf("node"))?.kubernetes).toEqual(RELEASES.at(-1)?.node);
    expect(supportIn("0.10.0", releasesOf("node"))).toBeUndefined();
  });

  it("are those that the documentation shows", () => {
    const page = readFileSync(new URL("../../../../docs/reference/support.md", import.meta.url), "utf8");
    for (const row of RELEASES) {
      const cells = [row.release, ...PROGRAMS_OF_RELEASE.map((it) => `${row[it].from} to ${row[it].to}`)];
      expect(page).toContain(`| ${cells.join(" | ")} |`);
    }
  });

  it.each([
    ["1.24.9", false],
    ["1.25.0", true],
    ["v1.36.2+k3s1", true],
    ["1.37.0-rc.1", false],
    ["1.250.0", false],
    ["2.30.0", false],
    ["1.3", false],
    ["?", false],
  ])("are 1.25 to 1.36, so that %s: %s", (version, expected) => {
    expect(isSupported(version, { from: "1.25", to: "1.36" })).toBe(expected);
  });

  it("are reported as text, each version once and at most four, and read again", () => {
    const both = [support("0.2.0", "1.27", "1.38"), support("0.1.0"), support("0.1.0")];
    const text = formatSupport(both);
    expect(text).toBe("0.1.0 for Kubernetes 1.25-1.36, 0.2.0 for Kubernetes 1.27-1.38");
    expect(parseSupport(text)).toEqual([support("0.1.0"), support("0.2.0", "1.27", "1.38")]);
    const many = Array.from({ length: 9 }, (_, at) => support(`0.${at}.0`));
    expect(parseSupport(formatSupport(many))).toHaveLength(4);
  });

  it.each(["", "0.1.0", "x for Kubernetes 1.2-1.3", "0.1.0 for Kubernetes 1-2", ", ".repeat(1000)])(
    "are not read out of %j",
    (text) => {
      expect(parseSupport(text)).toEqual([]);
    },
  );

  it("of the hub is in annotations of its Lease, which count as long as the hub that wrote them renews it", () => {
    const annotations = { [VERSION_ANNOTATION]: VERSION, ...hubSupportAnnotations() };
    expect(parseHubSupport(annotations)).toEqual(ownHubSupport());
    expect(parseHubSupport({ ...annotations, [VERSION_ANNOTATION]: "0.0.9" })).toBeUndefined();
    expect(parseHubSupport({ [VERSION_ANNOTATION]: VERSION })).toBeUndefined();
    expect(parseHubSupport()).toBeUndefined();
  });
});
