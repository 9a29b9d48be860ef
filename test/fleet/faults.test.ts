import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { IMPORTED_SERVICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  sliceOf,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const hello = objectKey("work", "hello");
const hello1 = objectKey("work", "hello-abcde");
let fleet: TestFleet;
/** Addresses that answer the importer's probes. */
const answering = new Set<string>();

const imported = (slices: readonly EndpointSlice[]): string[] =>
  addressesOf(slices.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello"));
const untilImported = (addresses: readonly string[]) =>
  eventually(fleet.client("c"), ENDPOINT_SLICES, (all) => imported(all).join() === addresses.join());

beforeAll(async () => {
  fleet = await startFleet({
    members: ["a", "b", "c"],
    leaseSeconds: 2,
    probe: () => (address) => Promise.resolve(answering.has(address) ? "connected" : "silent"),
  });
  await ensureNamespace(fleet.client("c"), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1", "10.1.0.2"] });
  await deploy(fleet.client("b"), { addresses: ["10.2.0.1"] });
  await exportBy("mcs", fleet.client("a"));
  await exportBy("fleet", fleet.client("b"));
  await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.1"]);
});
afterAll(() => fleet[Symbol.asyncDispose]());

async function versions(name: string, kinds: readonly Resource[]): Promise<string[]> {
  const lists = await Promise.all(kinds.map((of) => fleet.client(name).list(of)));
  return lists
    .flatMap((list) => list.items.map((it) => `${it.metadata.uid} ${it.metadata.resourceVersion}`))
    .toSorted();
}
const HUB_KINDS = [
  INTERNAL_SERVICE_EXPORTS,
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  IMPORTED_SERVICES,
] as readonly Resource[];
const MEMBER_KINDS = [SERVICES, ENDPOINT_SLICES, MCS_SERVICE_IMPORTS] as readonly Resource[];

const versionsOfAll = () => Promise.all([versions("hub", HUB_KINDS), versions("c", MEMBER_KINDS)]);

/** Waits until no program has work left: conditions and statuses may be written after the endpoints. */
async function versionsAtRest(): Promise<string[][]> {
  const signal = AbortSignal.timeout(20_000);
  let unchanged = 0;
  let before = await versionsOfAll();
  while (unchanged < 3) {
    const programs = [fleet.runningHub(), ...fleet.running.values()];
    await Promise.all(programs.flatMap((it) => it?.controllers ?? []).map((it) => it.idle(signal)));
    const after = await versionsOfAll();
    unchanged = JSON.stringify(after) === JSON.stringify(before) ? unchanged + 1 : 0;
    before = after;
  }
  return before;
}

describe("a fleet at rest", () => {
  it("writes nothing when the hub's and the members' programs restart", async () => {
    const before = await versionsAtRest();
    await fleet.hubProgram.stop();
    fleet.hubProgram.start();
    const agent = fleet.agents.get("c")!;
    await agent.stop();
    agent.start();
    // A change after the restart arrives after everything that the restart caused.
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, hello1, {
      endpoints: sliceOf({ addresses: ["10.1.0.1", "10.1.0.3"] }).endpoints,
    });
    await untilImported(["10.1.0.1", "10.1.0.3", "10.2.0.1"]);
    const after = await versionsOfAll();
    const [hubChanged, memberChanged] = after.map((list, at) =>
      list.filter((it) => !before[at]?.includes(it)),
    );
    // The exporter's slice and the one in the view, however many importers there are; one slice in the importer.
    expect(hubChanged).toHaveLength(2);
    expect(memberChanged).toHaveLength(1);
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, hello1, {
      endpoints: sliceOf({ addresses: ["10.1.0.1", "10.1.0.2"] }).endpoints,
    });
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.1"]);
  });

  it("catches up with changes from the time when an exporter's agent was down", async () => {
    const agent = fleet.agents.get("a")!;
    await agent.stop();
    await fleet.client("a").delete(ENDPOINT_SLICES, hello1);
    await fleet.client("a").create(ENDPOINT_SLICES, sliceOf({ addresses: ["10.1.0.9"], suffix: "zzzzz" }));
    agent.start();
    await untilImported(["10.1.0.9", "10.2.0.1"]);
    await fleet.client("a").delete(ENDPOINT_SLICES, objectKey("work", "hello-zzzzz"));
    await fleet.client("a").create(ENDPOINT_SLICES, sliceOf({ addresses: ["10.1.0.1", "10.1.0.2"] }));
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.1"]);
  });
});

describe("a cluster whose agent falls silent", () => {
  /** What the hub says of it. */
  const untilSaid = (text: string) =>
    eventuallyOne(
      fleet.client("hub"),
      MEMBER_CLUSTERS,
      objectKey(undefined, "a"),
      (it) =>
        it.status?.conditions?.some(
          (at) => at.type === "Healthy" && at.status === "False" && at.message.includes(text),
        ) === true,
    );

  it("keeps the endpoints that still answer, loses the others, and gets all back when it renews its lease", async () => {
    answering.add("10.1.0.1");
    const agent = fleet.agents.get("a")!;
    await agent.stop();
    await untilSaid("but endpoints of the cluster answer");
    await untilImported(["10.1.0.1", "10.2.0.1"]);
    // The last one falls silent too, then answers again: it has to answer several times.
    answering.clear();
    await untilImported(["10.2.0.1"]);
    await untilSaid("no endpoint of the cluster answers");
    answering.add("10.1.0.2");
    await untilImported(["10.1.0.2", "10.2.0.1"]);
    agent.start();
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.1"]);
  }, 40_000);

  it("stays suspect for a restarted hub and for a restarted importer", async () => {
    answering.clear();
    const agent = fleet.agents.get("a")!;
    await agent.stop();
    await untilImported(["10.2.0.1"]);
    await fleet.hubProgram.stop();
    fleet.hubProgram.start();
    const importer = fleet.agents.get("c")!;
    await importer.stop();
    importer.start();
    // A change in b shows that both have caught up: a's endpoints must not have come back.
    const seen: string[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      const options = { allowWatchBookmarks: true, sendInitialEvents: true };
      for await (const event of fleet.client("c").watch(ENDPOINT_SLICES, options, stop.signal))
        if (event.type === "MODIFIED" && event.object.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello")
          seen.push(...addressesOf([event.object]));
    })().catch(() => {});
    await fleet.client("b").mergePatch(ENDPOINT_SLICES, hello1, {
      endpoints: sliceOf({ addresses: ["10.2.0.2"] }).endpoints,
    });
    await untilImported(["10.2.0.2"]);
    stop.abort();
    await watching;
    expect(seen.filter((it) => it.startsWith("10.1."))).toEqual([]);
    agent.start();
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.2"]);
  }, 40_000);
});

describe("an unreachable hub", () => {
  beforeAll(() => {
    for (const it of ["10.1.0.1", "10.1.0.2", "10.2.0.2"]) answering.add(it);
  });

  it("stops nothing: imports stay, and the importer's own endpoints still change", async () => {
    await deploy(fleet.client("c"), { addresses: ["10.3.0.1"] });
    await exportBy("mcs", fleet.client("c"));
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.2", "10.3.0.1"]);
    await fleet.hubProgram.stop();
    await fleet.hub.server.close();
    await fleet.client("c").mergePatch(ENDPOINT_SLICES, hello1, {
      endpoints: sliceOf({ addresses: ["10.3.0.2", "10.3.0.3"] }).endpoints,
    });
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.2", "10.3.0.2", "10.3.0.3"]);
    const kept = await eventuallyOne(fleet.client("c"), MCS_SERVICE_IMPORTS, hello);
    expect(kept.status?.clusters).toHaveLength(3);
  });

  it("stops nothing either if an agent restarts in the meantime", async () => {
    const agent = fleet.agents.get("c")!;
    await agent.stop();
    agent.start();
    const endpoints = (addresses: readonly string[]) => ({ endpoints: sliceOf({ addresses }).endpoints });
    await fleet.client("c").mergePatch(ENDPOINT_SLICES, hello1, endpoints(["10.3.0.4"]));
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.2", "10.3.0.4"]);
    await fleet.client("c").delete(ENDPOINT_SLICES, hello1);
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.2"]);
    await fleet.client("c").create(ENDPOINT_SLICES, sliceOf({ addresses: ["10.3.0.5"], suffix: "zzzzz" }));
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.2", "10.3.0.5"]);
    await fleet.client("c").delete(MCS_SERVICE_EXPORTS, hello);
    await untilImported(["10.1.0.1", "10.1.0.2", "10.2.0.2"]);
  });
});

describe("a hub that cannot be reached for longer than a lease", () => {
  let small: TestFleet;
  const living = new Set<string>();
  const importedIn = (addresses: readonly string[]) =>
    eventually(small.client("c"), ENDPOINT_SLICES, (all) => imported(all).join() === addresses.join());
  const all = ["10.1.0.1", "10.2.0.1"];

  beforeAll(async () => {
    for (const it of all) living.add(it);
    small = await startFleet({
      members: ["a", "b", "c"],
      leaseSeconds: 2,
      probe: () => (address) => Promise.resolve(living.has(address) ? "connected" : "silent"),
    });
    await ensureNamespace(small.client("c"), "work");
    for (const [member, address] of [
      ["a", "10.1.0.1"],
      ["b", "10.2.0.1"],
    ] as const) {
      await deploy(small.client(member), { addresses: [address] });
      await exportBy("mcs", small.client(member));
    }
    await importedIn(all);
    await small.hubProgram.stop();
    await small.hub.server.close();
  }, 60_000);
  afterAll(() => small[Symbol.asyncDispose]());

  it("has each importer drop endpoints that died in the meantime, and use them again when they answer", async () => {
    living.delete("10.1.0.1");
    await importedIn(["10.2.0.1"]);
    living.add("10.1.0.1");
    await importedIn(all);
  }, 40_000);

  it("never removes the last endpoints of a service: they may serve clients although probes are blocked", async () => {
    living.delete("10.1.0.1");
    await importedIn(["10.2.0.1"]);
    living.clear();
    await importedIn(all);
    living.add("10.2.0.1");
    await importedIn(["10.2.0.1"]);
    living.add("10.1.0.1");
    await importedIn(all);
  }, 40_000);
});
