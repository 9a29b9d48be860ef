import { describe, expect, it } from "vitest";
import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import { compareVersions, renderVersions } from "./versions.ts";

const lease = (namespace: string, name: string, version?: string): Lease => ({
  metadata: {
    namespace,
    name,
    ...(version === undefined ? {} : { annotations: { "fairlead.dev/version": version } }),
  },
});

const member = (name: string) => ({
  metadata: { name },
  spec: { identity: { kind: "User" as const, name } },
});

function compare(
  client: string,
  hub: string | undefined,
  members: Readonly<Record<string, string | undefined>>,
) {
  const names = Object.entries(members);
  return compareVersions(client, {
    hub: lease("fleet-system", "fairlead-hub", hub),
    members: names.map(([name]) => member(name)),
    leases: names.map(([name, version]) => lease(`fleet-member-${name}`, name, version)),
  });
}

describe("the versions of a fleet", () => {
  it("are compared with that of the hub, as numbers", () => {
    const versions = compare("0.10.0", "0.9.1", { b: "0.9.1", a: "0.9.0", c: "1.0.0", d: undefined });
    expect(versions).toEqual({
      client: { version: "0.10.0", skew: "newer" },
      hub: { version: "0.9.1" },
      members: [
        { name: "a", version: "0.9.0", skew: "older" },
        { name: "b", version: "0.9.1", skew: "none" },
        { name: "c", version: "1.0.0", skew: "newer" },
        { name: "d", skew: "unknown" },
      ],
    });
  });

  it("are unknown if the hub reports none, and if what a member reports is not a version", () => {
    expect(compare("0.1.0", undefined, { a: "0.1.0" })).toEqual({
      client: { version: "0.1.0", skew: "unknown" },
      hub: {},
      members: [{ name: "a", version: "0.1.0", skew: "unknown" }],
    });
    expect(compare("0.1.0", "0.1.0", { a: "\u001B[2J", b: "1.2" }).members).toEqual([
      { name: "a", skew: "unknown" },
      { name: "b", skew: "unknown" },
    ]);
  });

  it("are printed as a table, and the client's alone if there is no hub", () => {
    expect(renderVersions(compare("0.2.0", "0.1.0", { one: "0.1.0", two: undefined }), "text")).toBe(
      [
        "PROGRAM      VERSION   SKEW",
        "client       0.2.0     newer",
        "hub          0.1.0     -",
        "member one   0.1.0     none",
        "member two   unknown   unknown",
      ].join("\n"),
    );
    expect(renderVersions({ client: { version: "0.2.0" } }, "text")).toBe("fairlead 0.2.0");
  });
});
