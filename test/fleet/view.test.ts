import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { ISOLATION_ANNOTATION, VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { ENDPOINT_SLICE_IMPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { ROLE_BINDINGS } from "@fairlead/kube/api/rbac/v1/types.ts";
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

let fleet: TestFleet;
const hub = () => fleet.client("hub");
const member = (name: string) => objectKey(undefined, name);
const mailbox = (name: string) => `fleet-member-${name}`;
const imported = (slices: readonly EndpointSlice[]): string[] =>
  addressesOf(slices.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello"));
const untilImported = (name: string, addresses: readonly string[]) =>
  eventually(fleet.client(name), ENDPOINT_SLICES, (all) => imported(all).join() === addresses.join());
const copiesIn = (namespace: string, count: number) =>
  Promise.all([
    eventually(hub(), ENDPOINT_SLICE_IMPORTS, (all) => all.length === count, { namespace }),
    eventually(hub(), IMPORTED_SERVICES, (all) => all.length === Math.min(count, 1), { namespace }),
  ]);

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"] });
  for (const name of ["b", "c"]) await ensureNamespace(fleet.client(name), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
  await exportBy("mcs", fleet.client("a"));
  await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.1"])));
});
afterAll(() => fleet[Symbol.asyncDispose]());

/** Counts how often an imported slice of a member vanished, until disposed. */
function watchWithdrawals(name: string): { readonly count: () => number } & AsyncDisposable {
  const stop = new AbortController();
  let count = 0;
  const done = (async () => {
    const options = { allowWatchBookmarks: true, sendInitialEvents: true };
    for await (const event of fleet.client(name).watch(ENDPOINT_SLICES, options, stop.signal))
      if (event.type === "DELETED" && event.object.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello")
        count += 1;
  })().catch(() => {});
  return {
    count: () => count,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}

describe("the view", () => {
  it("holds each slice and each service once, and no mailbox of a member that reads it holds any", async () => {
    await copiesIn(VIEW_NAMESPACE, 1);
    for (const name of ["a", "b", "c"]) await copiesIn(mailbox(name), 0);
    const internalMember = await hub().get(INTERNAL_MEMBER_CLUSTERS, objectKey(mailbox("b"), "b"));
    expect(internalMember.spec.view).toBe(VIEW_NAMESPACE);
  });

  it("is not written again for another importer, and left alone by members without the namespace", async () => {
    const before = await hub().list(ENDPOINT_SLICE_IMPORTS, { namespace: VIEW_NAMESPACE });
    await fleet.client("c").delete(NAMESPACES, objectKey(undefined, "work"));
    await eventually(fleet.client("c"), MCS_SERVICE_IMPORTS, (all) => all.length === 0);
    await eventually(fleet.client("c"), NAMESPACES, (all) => !all.some((it) => it.metadata.name === "work"));
    await ensureNamespace(fleet.client("c"), "work");
    await untilImported("c", ["10.1.0.1"]);
    const after = await hub().list(ENDPOINT_SLICE_IMPORTS, { namespace: VIEW_NAMESPACE });
    expect(after.items).toEqual(before.items);
  });

  it("is recreated when its content, or all of it, is deleted by hand", async () => {
    await using withdrawals = watchWithdrawals("b");
    const [service] = (await hub().list(IMPORTED_SERVICES, { namespace: VIEW_NAMESPACE })).items;
    await hub().delete(IMPORTED_SERVICES, objectKey(VIEW_NAMESPACE, service!.metadata.name));
    await eventually(
      hub(),
      IMPORTED_SERVICES,
      (all) => all.length === 1 && all[0]!.metadata.uid !== service!.metadata.uid,
      { namespace: VIEW_NAMESPACE },
    );
    expect(withdrawals.count()).toBeLessThanOrEqual(1);
    const namespace = await hub().get(NAMESPACES, objectKey(undefined, VIEW_NAMESPACE));
    await hub().delete(NAMESPACES, objectKey(undefined, VIEW_NAMESPACE));
    await eventuallyOne(
      hub(),
      NAMESPACES,
      objectKey(undefined, VIEW_NAMESPACE),
      (it) => it.metadata.uid !== namespace.metadata.uid,
    );
    await copiesIn(VIEW_NAMESPACE, 1);
    await untilImported("b", ["10.1.0.1"]);
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: sliceOf({ addresses: ["10.1.0.2"] }).endpoints,
    });
    await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.2"])));
  }, 30_000);
});

describe("an isolated member", () => {
  it("moves to copies in its mailbox, and back, without losing an endpoint", async () => {
    await using withdrawals = watchWithdrawals("b");
    await hub().mergePatch(MEMBER_CLUSTERS, member("b"), {
      metadata: { annotations: { [ISOLATION_ANNOTATION]: "strict" } },
    });
    await copiesIn(mailbox("b"), 1);
    await eventuallyOne(
      hub(),
      NAMESPACE_REPORTS,
      objectKey(mailbox("b"), "b"),
      (it) => it.spec.view === undefined,
    );
    await eventually(
      hub(),
      ROLE_BINDINGS,
      (all) => all.length === 2 && !all.some((it) => it.metadata.name.endsWith("-b")),
      { namespace: VIEW_NAMESPACE },
    );
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: sliceOf({ addresses: ["10.1.0.3"] }).endpoints,
    });
    await untilImported("b", ["10.1.0.3"]);
    await hub().mergePatch(MEMBER_CLUSTERS, member("b"), {
      metadata: { annotations: { [ISOLATION_ANNOTATION]: null } },
    });
    await copiesIn(mailbox("b"), 0);
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: sliceOf({ addresses: ["10.1.0.4"] }).endpoints,
    });
    await untilImported("b", ["10.1.0.4"]);
    expect(withdrawals.count()).toBe(0);
  }, 30_000);

  it("cannot read the view", async () => {
    const { session } = fleet.running.get("c")!;
    const read = async (namespace: string): Promise<boolean> => {
      try {
        await session.hub.list(ENDPOINT_SLICE_IMPORTS, { namespace });
        return true;
      } catch (error) {
        if (!hasCode(error, "API_FORBIDDEN")) throw error;
        return false;
      }
    };
    expect(await read(VIEW_NAMESPACE)).toBe(true);
    await hub().mergePatch(MEMBER_CLUSTERS, member("c"), {
      metadata: { annotations: { [ISOLATION_ANNOTATION]: "strict" } },
    });
    await eventually(hub(), ROLE_BINDINGS, (all) => all.length === 2, { namespace: VIEW_NAMESPACE });
    expect([await read(VIEW_NAMESPACE), await read(mailbox("c"))]).toEqual([false, true]);
    await untilImported("c", ["10.1.0.4"]);
  });

  it("leaves the view empty if no other reads it, and finds it filled when it reads it again, without losing an endpoint", async () => {
    await using withdrawals = watchWithdrawals("b");
    const isolate = (name: string, how: "strict" | null) =>
      hub().mergePatch(MEMBER_CLUSTERS, member(name), {
        metadata: { annotations: { [ISOLATION_ANNOTATION]: how } },
      });
    for (const name of ["a", "b"]) await isolate(name, "strict");
    await copiesIn(VIEW_NAMESPACE, 0);
    await copiesIn(mailbox("b"), 1);
    await isolate("b", null);
    const told = await eventuallyOne(
      hub(),
      INTERNAL_MEMBER_CLUSTERS,
      objectKey(mailbox("b"), "b"),
      (it) => it.spec.view === VIEW_NAMESPACE,
    );
    const [slices, services] = await copiesIn(VIEW_NAMESPACE, 1);
    for (const { metadata } of [...slices, ...services])
      expect(Number(metadata.resourceVersion)).toBeLessThan(Number(told.metadata.resourceVersion));
    await copiesIn(mailbox("b"), 0);
    await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: sliceOf({ addresses: ["10.1.0.5"] }).endpoints,
    });
    await Promise.all(["b", "c"].map((name) => untilImported(name, ["10.1.0.5"])));
    expect(withdrawals.count()).toBe(0);
  }, 30_000);
});
