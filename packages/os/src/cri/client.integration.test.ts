import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http2";
import { createServer as createSocketServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createCriClient, findCriSocket } from "./client.ts";
import { RuntimeService } from "./service.ts";

const signal = AbortSignal.timeout(20_000);
let folder: string;
let socket: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cri-"));
  socket = join(folder, "runtime.sock");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** @param version - "" for a server without the service. */
async function serve(version: string): Promise<AsyncDisposable> {
  const answer = { runtimeName: "test", runtimeVersion: version };
  const server = createServer(
    connectNodeAdapter({
      routes: (router) => void (version !== "" && router.service(RuntimeService, { version: () => answer })),
    }),
  );
  const close = new Set<() => void>();
  server.on("session", (session) => close.add(() => session.destroy()));
  return listen(server, close);
}

async function listen(server: Server, close: ReadonlySet<() => void>): Promise<AsyncDisposable> {
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  return {
    async [Symbol.asyncDispose]() {
      for (const it of close) it();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it("connects when the runtime has started, and again when it has restarted", async () => {
  await using client = createCriClient({ socket });
  await expect(client.version(signal)).rejects.toMatchObject({
    code: "CRI_UNAVAILABLE",
    message: expect.stringContaining("does not exist") as string,
  });
  for (const version of ["1", "2"]) {
    await using _ = await serve(version);
    await expect.poll(async () => client.version(signal).catch(() => undefined)).toMatchObject({ version });
  }
  await expect
    .poll(async () => client.version(signal).catch((it: unknown) => it))
    .toMatchObject({
      code: "CRI_UNAVAILABLE",
    });
});

it("says that a file is not a socket", async () => {
  writeFileSync(socket, "");
  await using client = createCriClient({ socket });
  await expect(client.version(signal)).rejects.toMatchObject({ code: "CRI_UNAVAILABLE" });
});

it("says that a runtime does not serve the CRI", async () => {
  await using _ = await serve("");
  await using client = createCriClient({ socket });
  await expect(client.version(signal)).rejects.toMatchObject({ code: "CRI_UNSUPPORTED" });
});

it("gives up on a runtime that does not answer after the limit, and at once when cancelled", async () => {
  const close = new Set<() => void>();
  const silent = createSocketServer((it) => close.add(() => it.destroy()));
  await using _ = await listen(silent, close);
  await using client = createCriClient({ socket, timeoutMs: 50 });
  await expect(client.version(signal)).rejects.toMatchObject({ code: "TIMED_OUT" });
  await using patient = createCriClient({ socket, timeoutMs: 60_000 });
  await expect(patient.version(AbortSignal.timeout(50))).rejects.toMatchObject({ code: "ABORTED" });
});

it("finds the first socket that exists, and names all of them where none does", () => {
  const missing = join(folder, "missing.sock");
  expect(() => findCriSocket([missing, socket])).toThrow(`none of ${missing}, ${socket} exists`);
  writeFileSync(socket, "");
  expect(findCriSocket([missing, socket])).toBe(socket);
});
