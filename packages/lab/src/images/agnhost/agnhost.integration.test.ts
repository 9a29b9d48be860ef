import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { dial } from "./dial.ts";
import { agnhostScript } from "./script.ts";
import { serveHttp, serveTcp, serveUdp } from "./serve.ts";

let folder: string;
let agnhost: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-agnhost-"));
  agnhost = join(folder, "agnhost");
  writeFileSync(agnhost, agnhostScript(["/bin/echo", "it's"]), { mode: 0o755 });
});
afterAll(() => rmSync(folder, { recursive: true }));

async function run(...args: readonly string[]) {
  const { exitCode, stdout, stderr } = await exec(agnhost, args, { allowFailure: true });
  return { code: exitCode, text: `${stdout}${stderr}`.trim() };
}

/** A port that nothing listens on. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe("the program /agnhost", () => {
  it("connects over TCP and UDP, over either family and by name", async () => {
    const port = await freePort();
    await using _tcp = await serveTcp(port, "server-0");
    await using _udp = await serveUdp(port, (text) => text);
    for (const host of ["127.0.0.1", "[::1]", "localhost"])
      for (const protocol of ["tcp", "udp"])
        expect(
          await run("connect", `${host}:${port}`, "--timeout=5s", "--protocol", protocol),
          `${host} ${protocol}`,
        ).toEqual({ code: 0, text: "" });
  });

  it("reports what suites tell apart: refused, not answered, and what it does not know", async () => {
    const port = await freePort();
    await using _udp = await serveUdp(port, () => undefined);
    for (const [args, text] of [
      [[`127.0.0.1:${port}`, "--timeout=5s"], /^REFUSED$/],
      [["127.0.0.1:1", "--protocol=udp", "--timeout=5s"], /^REFUSED$/],
      [[`127.0.0.1:${port}`, "--protocol=udp", "--timeout=100ms"], /^TIMEOUT/],
      [["127.0.0.1"], /^UNKNOWN: .*missing port/],
      [["127.0.0.1:80", "--what=1"], /^UNKNOWN: unknown flag: --what/],
      [["127.0.0.1:80", "--protocol=dccp"], /^UNKNOWN: .*dccp/],
    ] as const) {
      const got = await run("connect", ...args);
      expect(got.code).toBe(1);
      expect(got.text).toMatch(text);
    }
  });

  it("starts the servers of the image with all arguments", async () => {
    expect(await run("serve-hostname", "--tcp", "a b")).toEqual({
      code: 0,
      text: "it's serve-hostname --tcp a b",
    });
  });
});

describe("a UDP server", () => {
  it("receives packets at the address that it is given, and at no other one", async () => {
    const port = await freePort();
    await using _udp = await serveUdp(port, (text) => text, "127.0.0.2");
    expect(await run("connect", `127.0.0.2:${port}`, "--timeout=5s", "--protocol=udp")).toMatchObject({
      code: 0,
    });
    expect(await run("connect", `127.0.0.1:${port}`, "--timeout=5s", "--protocol=udp")).toMatchObject({
      text: "REFUSED",
    });
  });
});

describe("the requests of netexec", () => {
  it("go over HTTP and UDP, and report what failed", async () => {
    const [port, none] = [await freePort(), await freePort()];
    await using _http = await serveHttp(port, ({ url }, response) => response.end(url));
    await using _udp = await serveUdp(port, (text, { address }) => `${text} of ${address}`);
    const order = { host: "127.0.0.1", port, request: "hostname", tries: 2 };
    expect(await dial({ ...order, protocol: "http" })).toBe(`{"responses":["/hostname","/hostname"]}`);
    expect(await dial({ ...order, protocol: "udp", tries: 1 })).toBe(
      `{"responses":["hostname of 127.0.0.1"]}`,
    );
    expect(await dial({ ...order, protocol: "http", port: none, tries: 1 })).toMatch(
      /^\{"errors":\[".*ECONNREFUSED/,
    );
  });
});
