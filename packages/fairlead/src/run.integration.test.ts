import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempDisposableSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { renderData } from "@fairlead/fleet/cli/output.ts";
import { VERSION } from "@fairlead/base/version.ts";
import { runFairlead } from "./run.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  process.exitCode = undefined;
});

/** What a command says to people, and its code. */
async function run(...argv: readonly string[]): Promise<{ readonly code: number; readonly said: string }> {
  const said = vi.spyOn(process.stderr, "write").mockClear().mockReturnValue(true);
  const code = await runFairlead(argv);
  return { code, said: said.mock.calls.map(([text]) => String(text)).join("") };
}

describe("a command line that cannot be understood", () => {
  const hub = ["--hub-context", "hub"];
  it.for([
    ["stauts"],
    ["status", "--outptu", "json"],
    ["status", "-o", "xml"],
    ["completion", "tcsh"],
    ["crds", "print", "--role", "foo"],
    ["join", "one", "--hub-context", "hub", "--member-context", "one", "--timeout", "0"],
    ["join", "one", "--hub-context", "hub", "--member-context", "one", "--skip-check", "foo"],
    ["join", "Bad Name", "--hub-context", "hub", "--member-context", "one"],
    ["leave", "one", ...hub, "--timeout", "never"],
    ["drain", "one", ...hub, "--mode", "now"],
    ["dns", "check", "--timeout", "-1"],
    ["lab", "up", "--members", "0"],
    ["lab", "up", "--members", "abc"],
    ["lab", "up", "--nodes", "9"],
    ["lab", "up", "--name", "my lab"],
    ["hub", "--member-lease-seconds", "1"],
    ["member", "--log-level", "loud"],
    ["apiserver", "--no-such-flag"],
  ])("ends with 2, as docs/reference/cli.md states: %s", async (argv) => {
    using config = kubeconfig({ hub: "http://127.0.0.1:1", one: "http://127.0.0.1:2" });
    vi.stubEnv("KUBECONFIG", config.file);
    const { code, said } = await run(...argv);
    expect({ said, code }).toEqual({ said, code: 2 });
  });

  it("ends with 1 where it was understood and fails", async () => {
    expect((await run("status", "--kubeconfig", "/nonexistent")).code).toBe(1);
  });

  it.for([
    ["status", "--hub-context", "moon"],
    ["lab", "status", "--name", "no-such-lab"],
    ["policy", "diff", "-f", "/nonexistent"],
  ])("ends with 2 where it names something that is not there, and names what there is: %s", async (argv) => {
    using config = kubeconfig({ hub: "http://127.0.0.1:1", one: "http://127.0.0.1:2" });
    vi.stubEnv("KUBECONFIG", config.file);
    const { code, said } = await run(...argv);
    expect({ said, code }).toEqual({ said, code: 2 });
    expect(said).toMatch(
      /there are hub, one$|lab no-such-lab does not exist|the manifest \/nonexistent: there is no such file$/m,
    );
    expect(said).not.toContain("ENOENT");
  });

  it("that is interrupted says so, and does not blame the cluster that it waits for", async () => {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    // It never answers.
    const server = createServer(() => resolve()).listen(0, "127.0.0.1");
    await once(server, "listening");
    using config = kubeconfig({ hub: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    vi.stubEnv("KUBECONFIG", config.file);
    const ended = run("status", "--hub-context", "hub");
    await asked;
    process.emit("SIGTERM", "SIGTERM");
    expect(await ended).toEqual({ code: 130, said: "fairlead status: interrupted by SIGTERM\n" });
    server.closeAllConnections();
    server.close();
  });

  it("suggests the closest command or flag, on one line", async () => {
    expect((await run("stauts")).said).toBe(
      'fairlead: unknown command "stauts", did you mean "fairlead status"? Run "fairlead --help" for a list.\n',
    );
    expect((await run("status", "--outptu", "json")).said).toBe(
      `fairlead status: unknown option '--outptu' (did you mean --output?). Run "fairlead status --help" for its flags.\n`,
    );
    expect((await run("frobnicate")).said).not.toContain("mean");
  });
});

it("a program that cannot start reports it on a terminal in plain text", async () => {
  const { isTTY } = process.stderr;
  using _restore = { [Symbol.dispose]: () => void (process.stderr.isTTY = isTTY) };
  process.stderr.isTTY = true;
  const { said } = await run("hub", "--member-lease-seconds", "1");
  expect(said).toBe('fairlead hub: --member-lease-seconds must be a whole number from 2 to 3600, got "1"\n');
});

describe("version", () => {
  const version = async (...argv: readonly string[]) => {
    const printed = vi.spyOn(process.stdout, "write").mockClear().mockReturnValue(true);
    const { code, said } = await run("version", ...argv);
    return { code, said, printed: printed.mock.calls.map(([text]) => String(text).trimEnd()).join("\n") };
  };

  it("prints the version of the client alone if there is no kubeconfig", async () => {
    using home = mkdtempDisposableSync(join(tmpdir(), "home-"));
    vi.stubEnv("HOME", home.path);
    vi.stubEnv("KUBECONFIG", undefined);
    expect(await version()).toEqual({ code: 0, said: "", printed: `fairlead ${VERSION}` });
    expect((await version("-o", "json")).printed).toBe(renderData({ client: { version: VERSION } }, "json"));
  });

  it("reports a current context that it cannot read, and fails only if a flag names it", async () => {
    using config = kubeconfig({ hub: "http://127.0.0.1:1" });
    vi.stubEnv("KUBECONFIG", config.file);
    const { code, said, printed } = await version();
    expect({ code, printed }).toEqual({ code: 0, printed: `fairlead ${VERSION}` });
    expect(said).toMatch(/^only the client's version is known: .*127\.0\.0\.1:1/);
    expect(await version("--client")).toEqual({ code: 0, said: "", printed: `fairlead ${VERSION}` });
    expect((await version("--hub-context", "hub")).code).toBe(1);
  });
});

describe("crds install and crds check", () => {
  it.for(["install", "check"])("%s uses the current context, or the specified one", async (verb) => {
    const asked: string[] = [];
    using one = await refuse(() => asked.push("one"));
    using two = await refuse(() => asked.push("two"));
    using config = kubeconfig({ one: one.url, two: two.url });
    vi.stubEnv("KUBECONFIG", config.file);
    const crds = (...argv: readonly string[]) => run("crds", verb, "--role", "hub", ...argv);
    expect((await crds()).code).toBe(1);
    expect(new Set(asked)).toEqual(new Set(["one"]));
    asked.length = 0;
    expect((await crds("--context", "two")).code).toBe(1);
    expect(new Set(asked)).toEqual(new Set(["two"]));
  });
});

/** The first context is the current one. */
function kubeconfig(servers: Readonly<Record<string, string>>): Disposable & { readonly file: string } {
  const folder = mkdtempDisposableSync(join(tmpdir(), "kubeconfig-"));
  const file = join(folder.path, "config");
  const names = Object.entries(servers);
  const config = {
    clusters: names.map(([name, server]) => ({ name, cluster: { server } })),
    contexts: names.map(([name]) => ({ name, context: { cluster: name, user: "unknown" } })),
    users: [{ name: "unknown", user: {} }],
    "current-context": names[0]?.[0],
  };
  writeFileSync(file, JSON.stringify(config));
  return { file, [Symbol.dispose]: () => folder.remove() };
}

/** An API server that allows nothing. */
async function refuse(onRequest: () => void): Promise<Disposable & { readonly url: string }> {
  const server = createServer((_request, response) => {
    onRequest();
    response.writeHead(403, { "content-type": "application/json" });
    response.end(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code: 403 }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, [Symbol.dispose]: () => void server.close() };
}
