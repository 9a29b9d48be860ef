import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
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

function run(...args: readonly string[]) {
  return runWith(process.env["PATH"] ?? "", args);
}

async function runWith(path: string, args: readonly string[]) {
  const { exitCode, stdout, stderr } = await exec(agnhost, args, {
    allowFailure: true,
    // A locale that the machine does not have is a warning of bash.
    addEnv: { PATH: path, LC_ALL: "C" },
  });
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

/** A TCP port of which the queue is full: who connects gets no answer. */
async function listenToNobody(): Promise<{ readonly port: number; readonly stop: () => void }> {
  const listener = start("perl", ["-MSocket", "-e", LISTEN], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(listener.stdout as Readable, "data")) as [Buffer];
  const port = Number(line.toString());
  const first = connect(port, "127.0.0.1");
  await once(first, "connect");
  const stop = (): void => {
    listener.kill();
    first.destroy();
  };
  return { port, stop };
}

/** Prints the port, and accepts no connection: the kernel takes one for a queue of length 0. */
const LISTEN = `
socket(S, PF_INET, SOCK_STREAM, 0) and bind(S, sockaddr_in(0, INADDR_LOOPBACK)) and listen(S, 0) or die $!;
$| = 1;
print((sockaddr_in(getsockname(S)))[0]);
sleep;
`;

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

  it("connects, and gives up in time, without starting another program: suites do so 100,000 times", async () => {
    const port = await freePort();
    await using _tcp = await serveTcp(port, "server-0");
    await using _udp = await serveUdp(port, (text) => text);
    const target = `127.0.0.1:${port}`;
    for (const protocol of ["--protocol=tcp", "--protocol=udp"]) {
      const args = ["connect", target, "--timeout=5s", protocol];
      expect(await runWith("/nonexistent", args), `with ${protocol}`).toEqual({ code: 0, text: "" });
    }
    const busy = await listenToNobody();
    try {
      const args = ["connect", `127.0.0.1:${busy.port}`, "--timeout=100ms"];
      expect(await runWith("/nonexistent", args)).toEqual({ code: 1, text: "TIMEOUT" });
    } finally {
      busy.stop();
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
