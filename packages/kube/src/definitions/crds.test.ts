import { describe, expect, it } from "vitest";
import { CUSTOM_RESOURCE_DEFINITIONS, type CustomResourceDefinition } from "#api/apiextensions/v1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { objectKey } from "#api/meta/key.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import { awaitCrds, installCrds, installMissingCrds, listCrds } from "./crds.ts";

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
  return { clock, client, deps, install, serve };
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

  it("opens a watch for the definition that is not served yet, and none for others", async () => {
    const { clock, client, install, serve } = setUp();
    const first = install(crd("things"));
    await clock.advance(10);
    await serve("things");
    await first;
    const watched: (string | undefined)[] = [];
    const watch = client.watch.bind(client);
    client.watch = (of, options, signal) => {
      watched.push(options.fieldSelector);
      return watch(of, options, signal);
    };
    await install(crd("things"));
    expect(watched).toEqual([]);
    const second = install(crd("things"), crd("others"));
    await clock.advance(10);
    expect(watched).toEqual(["metadata.name=others.example.com"]);
    await serve("others");
    await second;
  });

  it("waits for a definition that it changed only until it sees the change", async () => {
    const { clock, install, serve } = setUp();
    const first = install(crd("things"));
    await clock.advance(10);
    await serve("things");
    await first;
    const other = crd("things");
    let isDone = false;
    const second = install({ ...other, spec: { ...other.spec, scope: "Cluster" } }).then(
      () => (isDone = true),
    );
    await clock.advance(10);
    expect(isDone).toBe(true);
    await second;
  });

  it("reads definitions again where the server was away", async () => {
    const { clock, client, install, serve } = setUp();
    client.list = () => Promise.reject(new FleetError("API_UNAVAILABLE", "the server is away"));
    const installing = install(crd("things"));
    await clock.advance(1000);
    await serve("things");
    await installing;
  });

  it("leaves definitions of other managers alone where it installs missing ones only", async () => {
    const { client, deps } = setUp();
    const signal = new AbortController().signal;
    await client.apply(CUSTOM_RESOURCE_DEFINITIONS, crd("things"), { fieldManager: "them" });
    const options = { crds: [crd("things")], fieldManager: "test" };
    expect(await installMissingCrds(client, options, deps, signal)).toEqual(["things.example.com"]);
    const after = await client.get(CUSTOM_RESOURCE_DEFINITIONS, objectKey(undefined, "things.example.com"));
    expect(after.metadata.managedFields?.map((it) => it.manager)).toEqual(["them"]);
  });

  it("does not take the status of an older generation as that of the new definition", async () => {
    const { clock, client, install, serve } = setUp();
    const name = objectKey(undefined, "things.example.com");
    const first = install(crd("things"));
    await clock.advance(10);
    await serve("things");
    await first;
    // The server has counted one write more than the watch reports.
    const apply = client.apply.bind(client);
    client.apply = async (of, ...request) => {
      const written = await apply(of, ...request);
      const { generation = 0 } = written.metadata;
      return { ...written, metadata: { ...written.metadata, generation: generation + 1 } };
    };
    const wider = crd("things");
    let isDone = false;
    const second = install({ ...wider, spec: { ...wider.spec, scope: "Cluster" } }).then(
      () => (isDone = true),
    );
    await clock.advance(10);
    expect(isDone).toBe(false);
    await client.mergePatch(CUSTOM_RESOURCE_DEFINITIONS, name, { spec: { names: { shortNames: ["th"] } } });
    await second;
  });

  it("reports the definitions that are not served in time", async () => {
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

describe("reading all CustomResourceDefinitions at once", () => {
  it("takes one request for all that a program waits for, and those that are missing are installed", async () => {
    const { clock, client, deps, install, serve } = setUp();
    const installing = install(crd("things"));
    await clock.advance(10);
    await serve("things");
    await installing;
    const { signal } = new AbortController();
    client.reads.length = 0;
    const present = await listCrds(client, signal);
    const options = { fieldManager: "test", remedy: "", present };
    await awaitCrds(client, { ...options, crds: [crd("things")] }, deps, signal);
    expect(client.reads.map((it) => it.verb)).toEqual(["list"]);
    const waiting = awaitCrds(client, { ...options, crds: [crd("things"), crd("others")] }, deps, signal);
    await clock.advance(10);
    await serve("others");
    await waiting;
  });

  it("is left to reads by name where it is forbidden, or where other programs have many", async () => {
    const { client } = setUp();
    const { signal } = new AbortController();
    client.refuseReads = new FleetError("API_FORBIDDEN", "not allowed");
    expect(await listCrds(client, signal)).toBeUndefined();
    client.refuseReads = undefined;
    client.seed(CUSTOM_RESOURCE_DEFINITIONS, ...Array.from({ length: 151 }, (_, at) => crd(`kind${at}`)));
    expect(await listCrds(client, signal)).toBeUndefined();
  });
});
