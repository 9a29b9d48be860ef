import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkAnswer, parseAnswer } from "./uapi.ts";
import { exchange } from "./uapi-socket.ts";

let folder: string;
let server: Server | undefined;
const sockets: Socket[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-uapi-"));
});
afterEach(() => {
  for (const it of sockets.splice(0)) it.destroy();
  server?.close();
  server = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** A process that serves the device, and does `answer` with each connection. */
async function serve(answer: (socket: Socket) => void): Promise<void> {
  server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    answer(socket);
  });
  const listens = Promise.withResolvers<void>();
  server.listen(join(folder, "wg0.sock"), () => listens.resolve());
  await listens.promise;
}

const ask = (signal = AbortSignal.timeout(20_000)): Promise<string | undefined> =>
  exchange(folder, "wg0", "get=1\n\n", signal);

it("a device without a process, without a socket or without a folder has no answer", async () => {
  expect(await ask()).toBeUndefined();
  folder = join(folder, "absent");
  expect(await ask()).toBeUndefined();
});

it("a process that ends before it has read the request gives no answer", async () => {
  await serve((socket) => socket.once("data", () => socket.destroy()));
  // More than is read at once.
  const request = "x".repeat(1_000_000);
  expect(await exchange(folder, "wg0", request, AbortSignal.timeout(20_000))).toBeUndefined();
});

it("an answer in pieces is put together, and the connection is not kept", async () => {
  const closed = Promise.withResolvers<void>();
  await serve((socket) => {
    socket.once("data", () => {
      socket.write("listen_port=9\nerrno=0\n");
      setImmediate(() => socket.write("\n"));
    });
    socket.once("end", () => closed.resolve());
  });
  expect(await ask()).toBe("listen_port=9\nerrno=0\n\n");
  await closed.promise;
});

it("a process that ends in the middle of its answer gave an incomplete one", async () => {
  await serve((socket) => socket.end("listen_port=9\n"));
  const answer = await ask();
  expect(() => checkAnswer("wg0", answer ?? "")).toThrow(/wg0: wireguard-go sent an incomplete answer/);
});

it("an answer without end is cut off", async () => {
  await serve((socket) => {
    const write = (): void => {
      while (!socket.destroyed && socket.write(Buffer.alloc(1024 * 1024, "x")));
    };
    socket.on("drain", write);
    write();
  });
  await expect(ask()).rejects.toMatchObject({ code: "WIREGUARD_FAILED", message: /too long/ });
});

it("a process that does not answer holds the caller no longer than its signal", async () => {
  const abort = new AbortController();
  await serve((socket) => socket.once("data", () => abort.abort()));
  await expect(ask(abort.signal)).rejects.toMatchObject({ code: "ABORTED" });
});

it.each([
  ["-22", /error number -22/],
  ["0\nlisten_port=9", /incomplete/],
  ["", /incomplete/],
])("an answer that ends with errno=%s is an error", (errno, message) => {
  expect(() => checkAnswer("wg0", `errno=${errno}\n\n`)).toThrow(message);
});

it("lines that are not understood are left out", () => {
  const answer = "nonsense\n=\nallowed_ip=10.0.0.0/8\nlisten_port=9\nprotocol_version=1\nerrno=0\n\n";
  expect(parseAnswer(answer)).toEqual({ listenPort: 9, fwmark: 0, peers: [] });
});
