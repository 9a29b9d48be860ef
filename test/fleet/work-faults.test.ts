/** Works under bad conditions: few rights, hanging webhooks, full quotas, large Works, restarts, a restored hub. */

import { createServer, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { FleetError } from "@fairlead/base/errors.ts";
import { type Clock, systemClock } from "@fairlead/base/clock.ts";
import { RESOURCE_QUOTAS } from "@fairlead/kube/api/core/v1/quota.ts";
import { type ConfigMap, CONFIG_MAPS, NAMESPACES, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { type Resource, resource } from "@fairlead/kube/api/meta/resource.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { appliesAs, EVERYTHING } from "@fairlead/fleet/authz/applied.ts";
import { MEMBER_WORK_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { APPLIED_GENERATION_ANNOTATION } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/names.ts";
import {
  APPLIED_WORKS,
  type Work,
  WORKS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { configAs, userOf } from "../support/access.ts";
import { ensureNamespace, testDeps } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import {
  type Call,
  conditionOf,
  configMap,
  eventuallyWork,
  isApplied,
  manifestOf,
  namespace,
  observed,
  reasonOf,
  startWorkBench,
  type WorkBench,
  workOf,
} from "../support/works.ts";

const WEBHOOKS = resource<KubeObject & { webhooks: object[] }>(
  "admissionregistration.k8s.io/v1",
  "ValidatingWebhookConfiguration",
  "validatingwebhookconfigurations",
  "Cluster",
);

let bench: WorkBench;
beforeAll(async () => {
  bench = await startWorkBench();
  await ensureNamespace(bench.member.client, "n");
});
afterEach(() => bench.stop());
afterAll(() => bench[Symbol.asyncDispose]());

const place = (work: Work): Promise<Work> => bench.hub.client.create(WORKS, work);
/** Timers of a second and more never fire: what happens, happens because a watch reported it. */
const WITHOUT_TIMERS: Clock = {
  ...systemClock,
  after: (delayMs, callback) =>
    delayMs < 1000 ? systemClock.after(delayMs, callback) : { [Symbol.dispose]: () => {} },
};
const withoutTimers = { deps: { ...testDeps("member"), clock: WITHOUT_TIMERS } };
/** Fifty times as fast. */
const HURRIED: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * 50,
  after: (delayMs, callback) => systemClock.after(delayMs / 50, callback),
};

/** Starts the applier, and returns what it writes in the member and on the hub. */
async function watchWrites(): Promise<{ readonly calls: Call[]; readonly idle: () => Promise<void> }> {
  const calls: Call[] = [];
  const note = (it: Call): void => void calls.push(it);
  const controller = await bench.restart({
    ...withoutTimers,
    local: observed(bench.member.client, note),
    hub: observed(bench.hub.client, note),
  });
  return { calls, idle: () => controller.idle(AbortSignal.timeout(20_000)) };
}
const shown = (calls: readonly Call[]): string[] => calls.map((it) => `${it.verb} ${it.plural} ${it.name}`);

describe("an applier", () => {
  // The first one: a Work that failed before would keep the watch.
  it("watches namespaces once while an object is refused: each watch shows all of them, and makes Works due", async () => {
    let [tries, watches] = [0, 0];
    const refusing = observed(bench.member.client, ({ name, plural }) => {
      if (name !== "refused" || plural !== "configmaps") return;
      tries += 1;
      throw new FleetError("API_FORBIDDEN", "refused by the test");
    });
    const local = new Proxy(refusing, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property, target);
        if (property !== "watch") return value;
        return (of: Resource, ...rest: unknown[]) => {
          if (of.plural === "namespaces") watches += 1;
          return (value as (...args: unknown[]) => unknown)(of, ...rest);
        };
      },
    });
    await bench.restart({ local, deps: { ...testDeps("member"), clock: HURRIED } });
    await place(workOf("refused", [configMap("n", "refused")]));
    await expect.poll(() => tries, { timeout: 15_000 }).toBeGreaterThan(5);
    expect(watches).toBe(1);
    await bench.hub.client.delete(WORKS, objectKey("fleet-member-a", "refused"));
    await eventually(bench.hub.client, WORKS, (all) => all.length === 0);
  });

  it("writes what changes, once, and nothing when it starts again", async () => {
    const first = await watchWrites();
    const manifests = ["a", "b", "c"].map((it) => configMap("n", `once-${it}`));
    const work = await place(workOf("once", manifests));
    await eventuallyWork(bench, "once", isApplied);
    await first.idle();
    expect(shown(first.calls).toSorted()).toEqual([
      "apply appliedworks once",
      "create configmaps once-a",
      "create configmaps once-b",
      "create configmaps once-c",
      "mergePatch appliedworks once",
      "mergePatch appliedworks once",
      "mergePatch works once",
      "mergePatch works once",
    ]);
    const again = await watchWrites();
    await again.idle();
    expect(shown(again.calls)).toEqual([]);
    const changed = [configMap("n", "once-a", { a: "2" }), ...manifests.slice(1)];
    await bench.hub.client.mergePatch(WORKS, keyOf(work), { spec: { workload: { manifests: changed } } });
    await eventuallyWork(bench, "once", isApplied);
    await again.idle();
    expect(shown(again.calls)).toEqual([
      "apply appliedworks once",
      "mergePatch configmaps once-a",
      "mergePatch works once",
    ]);
  });

  it("sends a patch that changes nothing once, and sends it again when a field of it is changed", async () => {
    const { calls, idle } = await watchWrites();
    const quota = {
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { namespace: "n", name: "q" },
      spec: { hard: { "requests.storage": "1000m" } },
    };
    await place(workOf("quantities", [quota]));
    await eventuallyWork(bench, "quantities", isApplied);
    const touch = async (more: object): Promise<void> => {
      await bench.member.client.mergePatch(RESOURCE_QUOTAS, objectKey("n", "q"), more);
      await idle();
    };
    const patches = (): number =>
      calls.filter((it) => it.plural === "resourcequotas" && it.verb === "mergePatch").length;
    for (const label of ["1", "2", "3", "4"]) await touch({ metadata: { labels: { label } } });
    await eventuallyOne(bench.member.client, RESOURCE_QUOTAS, objectKey("n", "q"));
    const before = patches();
    expect(before).toBeLessThanOrEqual(2);
    await touch({ spec: { hard: { "requests.storage": "7" } } });
    await eventuallyOne(
      bench.member.client,
      RESOURCE_QUOTAS,
      objectKey("n", "q"),
      (it) => it.spec?.hard?.["requests.storage"] === "1",
    );
    await bench.member.client.delete(RESOURCE_QUOTAS, objectKey("n", "q"));
  });

  it.each(["ClientSideApply", "ServerSideApply"] as const)(
    "does not fight with another writer that changes an object again and again, with %s",
    async (type) => {
      const name = `fight-${type.toLowerCase()}`;
      const { client } = bench.member;
      const key = objectKey("n", name);
      const { idle } = await watchWrites();
      const applyStrategy = { type, serverSideApplyConfig: { force: true } };
      const work = await place(workOf(name, [configMap("n", name)], { applyStrategy }));
      await eventuallyWork(bench, name, isApplied);
      const disturb = (): Promise<ConfigMap> =>
        client.mergePatch<ConfigMap>(CONFIG_MAPS, key, { data: { a: "other" } });
      await disturb();
      await eventuallyOne(client, CONFIG_MAPS, key, (it) => it.data?.["a"] === "1");
      await disturb();
      const held = await eventuallyWork(
        bench,
        name,
        (it) => manifestOf(it, 0).conditions?.[0]?.message.includes("again and again") === true,
      );
      expect(isApplied(held)).toBe(true);
      await client.mergePatch(CONFIG_MAPS, key, { metadata: { labels: { touched: "1" } } });
      await idle();
      expect((await client.get(CONFIG_MAPS, key)).data).toEqual({ a: "other" });
      // Another manifest is applied at once.
      await bench.hub.client.mergePatch(WORKS, keyOf(work), {
        spec: { workload: { manifests: [configMap("n", name, { a: "2" })] } },
      });
      await eventuallyOne(client, CONFIG_MAPS, key, (it) => it.data?.["a"] === "2");
      await disturb();
      await disturb();
      await bench.restart({ deps: { ...testDeps("member"), clock: HURRIED } });
      await eventuallyOne(client, CONFIG_MAPS, key, (it) => it.data?.["a"] === "2");
    },
  );

  it("forgets nothing that it created when it dies before it could note it", async () => {
    let records = 0;
    await bench.restart({
      local: observed(bench.member.client, (it) => {
        // What there is to be is written before objects are created, and what there is afterwards: that does not come.
        if (it.verb !== "mergePatch" || it.name !== "crash" || ++records < 2) return;
        void bench.stop();
        throw new Error("killed");
      }),
    });
    const work = await place(
      workOf(
        "crash",
        ["a", "b"].map((it) => configMap("n", `crash-${it}`)),
      ),
    );
    await eventuallyOne(bench.member.client, CONFIG_MAPS, objectKey("n", "crash-a"));
    await bench.hub.client.mergePatch(WORKS, keyOf(work), { spec: { workload: { manifests: [] } } });
    await bench.restart();
    await eventuallyWork(bench, "crash", isApplied);
    const left = await bench.member.client.list(CONFIG_MAPS, { namespace: "n" });
    expect(left.items.map((it) => it.metadata.name).filter((it) => it.startsWith("crash"))).toEqual([]);
  });
});

describe("an agent with few rights", () => {
  it("applies what it may, and reports the rest with verb, kind and name", async () => {
    const { client, config } = bench.member;
    const rules = [
      { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "create", "patch"] },
      { apiGroups: [""], resources: ["secrets"], verbs: ["get"] },
    ];
    await client.create(CLUSTER_ROLES, { metadata: { name: "narrow" }, rules });
    // As "join --placement-role narrow" does.
    const subject = {
      kind: "User",
      apiGroup: "rbac.authorization.k8s.io",
      name: userOf(MEMBER_WORK_ACCESS),
    } as const;
    await client.create(CLUSTER_ROLE_BINDINGS, appliesAs("narrow", subject).object);
    await client.delete(CLUSTER_ROLE_BINDINGS, keyOf(appliesAs(EVERYTHING, subject).object));
    await using local = connect(configAs(MEMBER_WORK_ACCESS, config), testDeps("narrow"));
    await bench.restart({ local });
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace: "n", name: "s" },
      stringData: { k: "hidden" },
    };
    const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { namespace: "n", name: "sa" } };
    await place(workOf("narrow", [configMap("n", "narrow"), secret, account]));
    const found = await eventuallyWork(bench, "narrow", (it) => conditionOf(it, "Applied") !== "");
    expect([0, 1, 2].map((it) => reasonOf(found, it))).toEqual([
      "Applied",
      "ManifestApplyFailed",
      "FailedToFindObjInMemberCluster",
    ]);
    expect(manifestOf(found, 1).conditions?.[0]?.message).toBe("cannot create Secret n/s: Forbidden");
    expect(manifestOf(found, 2).conditions?.[0]?.message).toMatch(
      /^cannot get ServiceAccount n\/sa: .*forbidden/,
    );
    expect(await client.find(SECRETS, objectKey("n", "s"))).toBeUndefined();
    await bench.stop();
  });
});

describe("a member in trouble", () => {
  it("applies the rest while an admission webhook hangs, and what hung when it does no longer", async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => void sockets.push(socket.on("error", () => {}))).listen(
      0,
      "127.0.0.1",
    );
    await new Promise((resolve) => server.once("listening", resolve));
    const address = server.address();
    const port = typeof address === "object" ? address?.port : undefined;
    const { client } = bench.member;
    await client.create(WEBHOOKS, {
      metadata: { name: "hangs" },
      webhooks: [
        {
          name: "hangs.example.com",
          admissionReviewVersions: ["v1"],
          sideEffects: "None",
          clientConfig: { url: `https://127.0.0.1:${port}/` },
          rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["secrets"] }],
        },
      ],
    });
    await bench.restart({ requestTimeoutMs: 300 });
    const secrets = ["1", "2", "3"].map((it) => ({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace: "n", name: `hangs-${it}` },
    }));
    await place(workOf("hanging", [...secrets, configMap("n", "goes-on")]));
    await place(workOf("other", [configMap("n", "elsewhere")]));
    await eventuallyWork(bench, "other", isApplied);
    const found = await eventuallyWork(bench, "hanging", (it) => conditionOf(it, "Applied") !== "");
    expect([0, 1, 2, 3].map((it) => reasonOf(found, it))).toEqual([
      "ManifestApplyFailed",
      "ManifestApplyFailed",
      "ManifestApplyFailed",
      "Applied",
    ]);
    // One request has no response; those after it, also of the next attempt, are not sent.
    for (const at of [0, 1, 2])
      expect(manifestOf(found, at).conditions?.[0]?.message).toMatch(
        /did not respond within 0\.3 s|an earlier request for this kind has no response yet/,
      );
    await client.delete(WEBHOOKS, objectKey(undefined, "hangs"));
    for (const socket of sockets) socket.destroy();
    server.close();
    await bench.restart({ deps: { ...testDeps("member"), clock: HURRIED } });
    await eventuallyWork(bench, "hanging", isApplied);
  });

  it("applies objects of a kind as soon as its definition, of the same Work or another, is established", async () => {
    await bench.restart(withoutTimers);
    const crd = (kind: string, plural: string): object => ({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `${plural}.example.com` },
      spec: {
        group: "example.com",
        scope: "Namespaced",
        names: { kind, plural },
        versions: [
          {
            name: "v1",
            served: true,
            storage: true,
            schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
          },
        ],
      },
    });
    const of = (kind: string): object => ({
      apiVersion: "example.com/v1",
      kind,
      metadata: { namespace: "n", name: "x" },
      spec: { a: 9007199254740993n },
    });
    await place(workOf("both", [of("Widget"), crd("Widget", "widgets")]));
    await eventuallyWork(bench, "both", isApplied);
    await place(workOf("needs", [of("Gadget")]));
    await eventuallyWork(bench, "needs", (it) => reasonOf(it, 0) === "DecodingErred");
    await place(workOf("brings", [crd("Gadget", "gadgets")]));
    const found = await eventuallyWork(bench, "needs", isApplied);
    expect(conditionOf(found, "Available")).toBe("True SomeManifestsAreNotAvailabilityTrackable");
    expect(
      await bench.member.client.get(resource("example.com/v1", "Gadget", "gadgets"), objectKey("n", "x")),
    ).toMatchObject({ spec: { a: 9007199254740993n } });
  });

  it("applies objects as soon as their namespace is there, of the same Work again or of another one", async () => {
    await bench.restart(withoutTimers);
    const { client } = bench.member;
    await place(workOf("homeless", [configMap("home", "x")]));
    await eventuallyWork(bench, "homeless", (it) => reasonOf(it, 0) === "ManifestApplyFailed");
    await place(workOf("home", [namespace("home"), configMap("home", "y")]));
    await eventuallyWork(bench, "homeless", isApplied);
    const { uid } = (await client.get(NAMESPACES, objectKey(undefined, "home"))).metadata;
    await client.delete(NAMESPACES, objectKey(undefined, "home"));
    await eventuallyOne(client, NAMESPACES, objectKey(undefined, "home"), (it) => it.metadata.uid !== uid);
    for (const name of ["x", "y"]) await eventuallyOne(client, CONFIG_MAPS, objectKey("home", name));
    for (const name of ["homeless", "home"]) await eventuallyWork(bench, name, isApplied);
  });

  it("applies objects whose namespace comes while their failure is being reported", async () => {
    const [reporting, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let writes = 0;
    const hub = observed(bench.hub.client, async ({ plural, name }) => {
      if (plural !== "works" || name !== "late") return;
      writes += 1;
      // The first one is the finalizer.
      if (writes !== 2) return;
      reporting.resolve();
      await release.promise;
    });
    await bench.restart({ ...withoutTimers, hub });
    await place(workOf("early", [configMap("late-home", "x")]));
    await eventuallyWork(bench, "early", (it) => reasonOf(it, 0) === "ManifestApplyFailed");
    await place(workOf("late", [configMap("late-home", "y")]));
    await reporting.promise;
    await ensureNamespace(bench.member.client, "late-home");
    await eventuallyWork(bench, "early", isApplied);
    release.resolve();
    await eventuallyWork(bench, "late", isApplied);
  });

  it("applies what a full quota kept out, when there is room", async () => {
    const { client } = bench.member;
    await ensureNamespace(client, "full");
    const quota = { namespace: "full", name: "q" };
    const hard = { "count/configmaps": "0" };
    await client.create(RESOURCE_QUOTAS, { metadata: quota, spec: { hard } });
    await client.mergePatch(
      RESOURCE_QUOTAS,
      objectKey("full", "q"),
      { status: { hard, used: hard } },
      { subresource: "status" },
    );
    await bench.restart({ deps: { ...testDeps("member"), clock: HURRIED } });
    await place(workOf("full", [configMap("full", "c")]));
    const found = await eventuallyWork(bench, "full", (it) => reasonOf(it, 0) === "ManifestApplyFailed");
    expect(manifestOf(found, 0).conditions?.[0]?.message).toContain("exceeded quota");
    await client.delete(RESOURCE_QUOTAS, objectKey("full", "q"));
    await eventuallyWork(bench, "full", isApplied);
  });
});

describe("a large Work", () => {
  it("of 1,000 manifests is applied whole, without a request for those that do not change", async () => {
    const { calls, idle } = await watchWrites();
    const manifests = Array.from({ length: 1000 }, (_, at) => configMap("n", `many-${at}`));
    const work = await place(workOf("many", manifests));
    await eventuallyWork(bench, "many", isApplied);
    await idle();
    calls.length = 0;
    manifests[500] = configMap("n", "many-500", { a: "2" });
    await bench.hub.client.mergePatch(WORKS, keyOf(work), { spec: { workload: { manifests } } });
    await eventuallyOne(
      bench.member.client,
      CONFIG_MAPS,
      objectKey("n", "many-500"),
      (it) => it.data?.["a"] === "2",
    );
    await eventuallyWork(bench, "many", isApplied);
    await idle();
    expect(shown(calls)).toEqual([
      "apply appliedworks many",
      "mergePatch configmaps many-500",
      "mergePatch works many",
    ]);
    await bench.hub.client.delete(WORKS, keyOf(work));
  });

  it("is reported within what a server stores, with less detail", async () => {
    const { client } = bench.member;
    await client.create(CONFIG_MAPS, { metadata: { namespace: "n", name: "huge" }, data: { a: "other" } });
    await bench.restart();
    const data = Object.fromEntries(Array.from({ length: 250 }, (_, at) => [`k${at}`, "v".repeat(4000)]));
    const pads = [1, 2].map((it) => configMap("n", `pad-${it}`, { a: "x".repeat(150_000) }));
    const strategy = { type: "ReportDiff", comparisonOption: "FullComparison" } as const;
    await place(workOf("huge", [configMap("n", "huge", data), ...pads], { applyStrategy: strategy }));
    const found = await eventuallyWork(bench, "huge", (it) => conditionOf(it, "DiffReported") !== "");
    expect(conditionOf(found, "StatusTrimmed")).toBe("True Oversized");
    expect(reasonOf(found, 0, "DiffReported")).toBe("FoundDiff");
    // The next larger number does not fit.
    expect(manifestOf(found, 0).diffDetails?.observedDiffs).toHaveLength(10);
  });
});

describe("a hub that was restored from a backup", () => {
  it("changes nothing with a Work older than the one that was applied, and says so, until that is permitted", async () => {
    await bench.restart(withoutTimers);
    const { client } = bench.member;
    await place(workOf("restored", [configMap("n", "restored")]));
    const work = await eventuallyWork(bench, "restored", isApplied);
    await bench.stop();
    // As if generation 7, with one object more, had been applied before the hub lost it.
    const more = await client.get(APPLIED_WORKS, objectKey(undefined, "restored"));
    await client.mergePatch(APPLIED_WORKS, keyOf(more), {
      metadata: { annotations: { [APPLIED_GENERATION_ANNOTATION]: `${work.metadata.uid} 7` } },
    });
    await client.mergePatch(CONFIG_MAPS, objectKey("n", "restored"), { data: { a: "newer" } });
    const controller = await bench.restart(withoutTimers);
    const waiting = await eventuallyWork(
      bench,
      "restored",
      (it) => conditionOf(it, "Applied") === "Unknown HubRestored",
    );
    expect(waiting.status?.conditions?.[0]?.message).toContain("generation 7 of this Work was applied");
    await controller.idle(AbortSignal.timeout(20_000));
    expect((await client.get(CONFIG_MAPS, objectKey("n", "restored"))).data).toEqual({ a: "newer" });
    await client.mergePatch(APPLIED_WORKS, keyOf(more), {
      metadata: { annotations: { [APPLIED_GENERATION_ANNOTATION]: null } },
    });
    await eventuallyWork(bench, "restored", isApplied);
    expect((await client.get(CONFIG_MAPS, objectKey("n", "restored"))).data).toEqual({ a: "1" });
  });
});
