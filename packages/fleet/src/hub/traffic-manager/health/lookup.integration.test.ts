import { createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { permittedTargets } from "../targets.ts";
import { createCheck } from "./checks.ts";

describe("a host that is checked by its name", () => {
  it("is not an endpoint if the name resolves to this machine", async () => {
    await using server = createServer((socket) => socket.end());
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const bound = server.address();
    const port = typeof bound === "object" && bound !== null ? bound.port : 0;
    const monitor = {
      protocol: "TCP" as const,
      port,
      path: "/",
      intervalInSeconds: 30 as const,
      timeoutInSeconds: 10,
      toleratedNumberOfFailures: 3,
      customHeaders: [],
    };
    const { signal } = new AbortController();
    for (const host of ["localhost", "127.0.0.1"]) {
      expect(await createCheck(permittedTargets())(host, monitor, signal)).toBe(false);
      expect(await createCheck(() => true)(host, monitor, signal)).toBe(true);
    }
  });
});
