import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FleetError } from "@fairlead/base/errors.ts";
import { findSuite, type Go } from "./suite.ts";

let cache: string;
let calls: string[];
const signal = new AbortController().signal;

beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), "suite-test-"));
  calls = [];
});
afterEach(() => rmSync(cache, { recursive: true, force: true }));

const printed = (stdout: string) => ({ stdout, stderr: "", exitCode: 0 });

/** A Go that can have v0.5.0 and, as the newest, v0.5.2. */
const go: Go = (args) => {
  calls.push(args.slice(0, 2).join(" "));
  if (args[0] === "list")
    return Promise.resolve(printed(args.at(-1)?.endsWith("@latest") === true ? "v0.5.2\n" : "v0.5.0\n"));
  if (args[0] === "test") writeFileSync(args[args.indexOf("-o") + 1] ?? "", "suite");
  return Promise.resolve(printed(""));
};

describe("the suite", () => {
  it("is the binary that the environment names", async () => {
    const path = join(cache, "given.test");
    writeFileSync(path, "");
    const environment = { MCS_CONFORMANCE: path };
    const suite = await findSuite({ version: "v0.5.0", environment, cache, signal, go });
    expect(suite).toEqual({ kind: "found", path, version: "v0.5.0" });
    expect(calls).toEqual([]);
  });

  it("is not looked up elsewhere if the named one is absent", async () => {
    const environment = { MCS_CONFORMANCE: join(cache, "absent") };
    const suite = await findSuite({ version: "v0.5.0", environment, cache, signal, go });
    expect(suite).toHaveProperty(
      "why",
      `MCS_CONFORMANCE names ${environment.MCS_CONFORMANCE}, which is not there`,
    );
  });

  it("is built once for each version, and leaves no module behind", async () => {
    const search = { version: "v0.5.0", environment: {}, cache, signal, go };
    const first = await findSuite(search);
    expect(first).toMatchObject({ kind: "found", version: "v0.5.0" });
    expect(calls).toEqual(["version", "list -m", "get -t", "test -c"]);
    expect(await findSuite(search)).toEqual(first);
    expect(calls).toHaveLength(4);
    expect(
      readdirSync(tmpdir()).filter(
        (it) => it.startsWith("conformance-") && existsSync(join(tmpdir(), it, "go.mod")),
      ),
    ).toEqual([]);
  });

  it("may be the newest one, which another variable names", async () => {
    const environment = { MCS_CONFORMANCE: join(cache, "absent") };
    const suite = await findSuite({ version: "latest", environment, cache, signal, go });
    expect(suite).toMatchObject({ kind: "found", version: "v0.5.2" });
  });

  it("of another version is never the binary that is named for ours", async () => {
    const given = join(cache, "given.test");
    writeFileSync(given, "");
    const environment = { MCS_CONFORMANCE: given, MCS_CONFORMANCE_LATEST: given };
    const suite = await findSuite({ version: "v0.4.1", environment, cache, signal, go });
    expect(suite).not.toHaveProperty("path", given);
  });

  it("is missed in words: no Go, or no module", async () => {
    const noGo: Go = () =>
      Promise.reject(
        new FleetError("EXEC_FAILED", "cannot start go", {
          cause: Object.assign(new Error("spawn"), { code: "ENOENT" }),
        }),
      );
    const whyMissing = async (broken: Go): Promise<string> => {
      const suite = await findSuite({ version: "v0.5.0", environment: {}, cache, signal, go: broken });
      return suite.kind === "missing" ? suite.why : "";
    };
    expect(await whyMissing(noGo)).toContain("no Go on the path");
    const noModule: Go = (args) =>
      args[0] === "version"
        ? go(args, "")
        : Promise.reject(new FleetError("EXEC_FAILED", "go list ended with code 1: no such host"));
    expect(await whyMissing(noModule)).toContain("no such host");
  });
});
