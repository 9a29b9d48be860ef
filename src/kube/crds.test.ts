import { describe, expect, it } from "vitest";
import { CUSTOM_RESOURCE_DEFINITIONS, type CustomResourceDefinition } from "#api/apiextensions/v1/types.ts";
import { FakeClock } from "#base/clock.fake.ts";
import { silentLogger } from "#base/log.ts";
import { noMetrics } from "#base/metrics.none.ts";
import { seededRng } from "#base/rng.ts";
import { objectKey } from "#api/meta/key.ts";
import { FakeKubeClient } from "./client.fake.ts";
import { installCrds } from "./crds.ts";

const crd = (plural: string): CustomResourceDefinition => ({
  metadata: { name: `${plural}.example.com` },
  spec: {
    group: "example.com",
    scope: "Namespaced",
    names: { kind: "Thing", listKind: "ThingList", plural, singular: "thing" },
    versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
  },
});
const established = {
  status: {
    conditions: [
      {
        type: "Established",
        status: "True",
        reason: "r",
        message: "",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ],
  },
};

function setUp() {
  const clock = new FakeClock();
  const client = new FakeKubeClient(clock);
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const install = (...crds: CustomResourceDefinition[]) =>
    installCrds(client, { crds, fieldManager: "test", timeoutMs: 5000 }, deps, new AbortController().signal);
  const serve = (plural: string) =>
    client.mergePatch(
      CUSTOM_RESOURCE_DEFINITIONS,
      objectKey(undefined, `${plural}.example.com`),
      established,
      {
        subresource: "status",
      },
    );
  return { clock, client, install, serve };
}

describe("installing CustomResourceDefinitions", () => {
  it("waits until the server serves them all, and writes nothing the second time", async () => {
    const { clock, client, install, serve } = setUp();
    const installing = install(crd("things"), crd("others"));
    await clock.advance(10);
    await serve("things");
    await clock.advance(10);
    const first = await Promise.race([installing.then(() => "done"), Promise.resolve("waiting")]);
    expect(first).toBe("waiting");
    await serve("others");
    await installing;
    client.writes.length = 0;
    await install(crd("things"), crd("others"));
    expect(client.writes).toEqual([]);
  });

  it("names those that are not served in time", async () => {
    const { clock, install, serve } = setUp();
    const outcome = install(crd("things"), crd("others")).then(
      () => undefined,
      (error: unknown) => error,
    );
    await clock.advance(10);
    await serve("things");
    await clock.advance(5000);
    expect(await outcome).toMatchObject({
      code: "TIMED_OUT",
      message: "the API server does not serve others.example.com after 5000 ms",
    });
  });
});
