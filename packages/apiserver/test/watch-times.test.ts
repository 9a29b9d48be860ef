import { Agent, request } from "node:https";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { startTestServer } from "./support.ts";

interface Line {
  readonly type: string;
  readonly object: { readonly kind: string; readonly metadata: { readonly resourceVersion: string } };
}

it("an idle watch receives a bookmark each minute and before it ends", async () => {
  // Certificates are checked against the real time.
  const clock = new FakeClock(Date.now());
  await using test = await startTestServer({ clock });
  const { ca, admin, port } = test.server;
  const agent = new Agent({ ca, cert: admin.cert, key: admin.key });
  const from = (await test.call("GET", "/api/v1/secrets")).json.metadata.resourceVersion;
  const path = `/api/v1/secrets?watch=1&allowWatchBookmarks=true&timeoutSeconds=100&resourceVersion=${from}`;
  const lines = await new Promise<AsyncIterator<string>>((resolve, reject) => {
    // Headers come before any event: nothing has been written yet.
    const outgoing = request({ host: "127.0.0.1", port, path, agent }, (answer) => {
      resolve(createInterface({ input: answer })[Symbol.asyncIterator]());
    });
    outgoing.once("error", reject);
    outgoing.end();
  });
  const next = async (): Promise<Line> => JSON.parse(String((await lines.next()).value)) as Line;
  await test.call("POST", "/api/v1/namespaces", {
    body: { apiVersion: "v1", kind: "Namespace", metadata: { name: "n" } },
  });
  const now = String(test.server.registry.store.revision);
  await clock.advance(70_000);
  expect(await next()).toMatchObject({
    type: "BOOKMARK",
    object: { kind: "Secret", metadata: { resourceVersion: now } },
  });
  await clock.advance(28_500);
  expect((await next()).type).toBe("BOOKMARK");
  await clock.advance(2000);
  expect((await lines.next()).done).toBe(true);
  agent.destroy();
});
