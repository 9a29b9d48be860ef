import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { Attributes } from "#values/authorizer.ts";
import { AuditFile } from "./file.ts";
import { omittedStages, parseAuditPolicy } from "./policy.ts";

const USER = { name: "ada", groups: ["devs"] };

function on(
  resource: string,
  of: { verb?: string; namespace?: string; name?: string; group?: string } = {},
): Attributes {
  const [plural = "", subresource = ""] = resource.split("/");
  const { verb = "get", namespace = "n", name = "", group = "" } = of;
  return { user: USER, verb, resource: { group, resource: plural, subresource, namespace, name } };
}

function path(at: string): Attributes {
  return { user: USER, verb: "get", path: at };
}

function policy(...rules: object[]): ReturnType<typeof parseAuditPolicy> {
  return parseAuditPolicy({ apiVersion: "audit.k8s.io/v1", kind: "Policy", rules });
}

describe("an audit policy", () => {
  it.each<[string, object, Attributes, Attributes]>([
    ["users", { users: ["ada"] }, on("pods"), { ...on("pods"), user: { name: "bob", groups: [] } }],
    ["groups", { userGroups: ["devs"] }, on("pods"), { ...on("pods"), user: { name: "bob", groups: [] } }],
    ["verbs", { verbs: ["delete"] }, on("pods", { verb: "delete" }), on("pods")],
    ["namespaces", { namespaces: ["n"] }, on("pods"), on("pods", { namespace: "m" })],
    ["groups of resources", { resources: [{ group: "apps" }] }, on("x", { group: "apps" }), on("x")],
    ["resources", { resources: [{ resources: ["pods"] }] }, on("pods"), on("pods/log")],
    ["subresources", { resources: [{ resources: ["pods/*"] }] }, on("pods/log"), on("nodes/log")],
    ["any subresource of a name", { resources: [{ resources: ["*/scale"] }] }, on("x/scale"), on("x")],
    [
      "names",
      { resources: [{ resources: ["pods"], resourceNames: ["a"] }] },
      on("pods", { name: "a" }),
      on("pods", { name: "b" }),
    ],
    ["paths", { nonResourceURLs: ["/healthz*", "/version"] }, path("/healthz/ping"), path("/api")],
  ])("selects by %s", (_what, rule, meant, other) => {
    const chosen = policy({ level: "Metadata", ...rule });
    expect(omittedStages(chosen, meant)).toEqual([]);
    expect(omittedStages(chosen, other)).toBeUndefined();
  });

  it("applies the first rule that matches, and omits stages", () => {
    const chosen = policy(
      { level: "None", resources: [{ resources: ["events"] }] },
      { level: "Metadata", omitStages: ["RequestReceived"] },
    );
    expect(omittedStages(chosen, on("events"))).toBeUndefined();
    expect(omittedStages(chosen, on("pods"))).toEqual(["RequestReceived"]);
  });

  it.each<[object, string]>([
    [{ rules: [] }, "no rules"],
    [{ rules: [{ level: "RequestResponse" }] }, "rules[0].level must be None or Metadata"],
    [{ rules: [{ level: "Metadata", omitStages: ["Later"] }] }, "unknown stage Later"],
    [{ kind: "Other", rules: [{ level: "Metadata" }] }, "kind Policy"],
  ])("%j is rejected", (value, message) => {
    const whole = { apiVersion: "audit.k8s.io/v1", kind: "Policy", ...value };
    expect(() => parseAuditPolicy(whole)).toThrow(message);
  });
});

describe("an audit file", () => {
  let dir = "";
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "audit-"));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  it("rotates before it exceeds maxBytes, keeps maxBackups old files, and leaves other files alone", async () => {
    const clock = new FakeClock();
    const at = join(dir, "audit.log");
    {
      using other = new AuditFile(
        join(dir, "audit-notes.log"),
        { maxBytes: 100, maxBackups: 0 },
        { clock, log: silentLogger },
      );
      other.write("kept");
    }
    using file = new AuditFile(at, { maxBytes: 20, maxBackups: 2 }, { clock, log: silentLogger });
    for (let index = 0; index < 8; index++) {
      await clock.advance(1);
      file.write(`line-${index}-xx`);
    }
    expect(await readFile(at, "utf8")).toBe("line-6-xx\nline-7-xx\n");
    const names = (await readdir(dir)).toSorted();
    expect(names).toHaveLength(4);
    expect(names).toContain("audit-notes.log");
    expect(await readFile(join(dir, names[0] ?? ""), "utf8")).toBe("line-2-xx\nline-3-xx\n");
  });

  it("appends to the file of an earlier process", async () => {
    const at = join(dir, "audit.log");
    for (const line of ["one", "two"]) {
      using file = new AuditFile(
        at,
        { maxBytes: 100, maxBackups: 1 },
        { clock: new FakeClock(), log: silentLogger },
      );
      file.write(line);
    }
    expect(await readFile(at, "utf8")).toBe("one\ntwo\n");
  });
});
