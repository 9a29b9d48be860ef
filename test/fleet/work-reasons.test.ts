/** What a Work reports of each of its manifests: every reason of the conditions Applied and DiffReported. */

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Clock, systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { type ConfigMap, CONFIG_MAPS, type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { SPEC_HASH_ANNOTATION } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/names.ts";
import type { ApplyStrategy } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type Work, WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { compileHealth } from "../../packages/fairlead/src/member/health.ts";
import { ensureNamespace, testDeps } from "../support/fleet.ts";
import { eventuallyOne } from "../support/waiting.ts";
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

let bench: WorkBench;
let restore = false;
beforeAll(async () => {
  bench = await startWorkBench();
  await ensureNamespace(bench.member.client, "n");
});
afterEach(async () => {
  if (restore) await bench.restart();
  restore = false;
});
afterAll(() => bench[Symbol.asyncDispose]());

const PATIENCE = { timeout: 15_000, interval: 50 };
const place = (work: Work): Promise<Work> => bench.hub.client.create(WORKS, work);

/** Restarts the applier, with errors and delays in the place of some requests. */
async function hinder(
  onCall: (call: Call) => void | Promise<void>,
  verbs?: readonly string[],
): Promise<void> {
  restore = true;
  const ofOthers = (it: Call): void | Promise<void> =>
    it.plural === "appliedworks" ? undefined : onCall(it);
  const local = observed(bench.member.client, ofOthers, verbs);
  // By the hurried clock: a request that a test holds is not to time out.
  const requestTimeoutMs = 50 * 600_000;
  await bench.restart({ local, deps: { ...testDeps("member"), clock: HURRIED }, requestTimeoutMs });
}
/** Fifty times as fast. */
const HURRIED: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * 50,
  after: (delayMs, callback) => systemClock.after(delayMs / 50, callback),
};
const forbidden = (call: Call): never => {
  const message = `User "agent" cannot ${call.verb} resource "${call.plural}"`;
  throw new FleetError("API_FORBIDDEN", "x", { detail: { status: { reason: "Forbidden", message } } });
};

/** The Work, once the first manifest has a reason. */
async function reported(
  name: string,
  manifests: readonly object[],
  applyStrategy: ApplyStrategy = {},
  type = applyStrategy.type === "ReportDiff" ? "DiffReported" : "Applied",
): Promise<{ readonly work: Work; readonly reason: string; readonly message: string }> {
  await place(workOf(name, manifests, { applyStrategy }));
  return seen(name, type);
}
async function seen(name: string, type = "Applied", isSo: (reason: string) => boolean = (it) => it !== "") {
  const work = await eventuallyWork(
    bench,
    name,
    (it) => conditionOf(it, type) !== "" && isSo(reasonOf(it, 0, type)),
  );
  const message = manifestOf(work, 0).conditions?.find((it) => it.type === type)?.message ?? "";
  return { work, reason: reasonOf(work, 0, type), message };
}
const inMember = (name: string): Promise<ConfigMap> =>
  bench.member.client.get(CONFIG_MAPS, objectKey("n", name));
const change = (name: string, data: object): Promise<ConfigMap> =>
  bench.member.client.mergePatch(CONFIG_MAPS, objectKey("n", name), { data });
const create = (name: string, data: Record<string, string>, metadata: object = {}): Promise<ConfigMap> =>
  bench.member.client.create(CONFIG_MAPS, { metadata: { namespace: "n", name, ...metadata }, data });

describe("a manifest that cannot be applied", () => {
  it("is refused by itself, and the others are applied", async () => {
    const work = await place(
      workOf("mixed", [
        { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "w" } },
        { apiVersion: "v1", kind: "ConfigMap", metadata: { generateName: "x-", namespace: "n" } },
        configMap("n", "fine"),
        configMap("n", "fine"),
        configMap("kube-system", "x"),
        { ...configMap("n", "x"), metadata: { name: "x" } },
        { ...configMap("n", "x"), metadata: { name: "UPPER", namespace: "n" } },
        namespace("fleet-system"),
      ]),
    );
    const found = await eventuallyWork(bench, work.metadata.name, (it) => conditionOf(it, "Applied") !== "");
    expect(conditionOf(found, "Applied")).toBe("False SomeManifestsAreNotApplied");
    expect(conditionOf(found, "Available")).toBe("");
    expect(Array.from({ length: 8 }, (_, at) => reasonOf(found, at))).toEqual([
      "DecodingErred",
      "FoundGenerateName",
      "Applied",
      "Duplicated",
      "ManifestApplyFailed",
      "DecodingErred",
      "ManifestApplyFailed",
      "ManifestApplyFailed",
    ]);
    expect(await bench.member.client.find(CONFIG_MAPS, objectKey("kube-system", "x"))).toBeUndefined();
    const messages = found.status?.manifestConditions?.map((it) => it.conditions?.[0]?.message);
    expect(messages?.[0]).toContain("this cluster serves no kind Widget of example.com/v1");
    expect(messages?.[6]).toMatch(/^cannot create ConfigMap n\/UPPER: /);
  });

  it("is FailedToFindObjInMemberCluster where the agent may not read it", async () => {
    await hinder(forbidden, ["find"]);
    const { reason, message } = await reported("unreadable", [configMap("n", "unreadable")]);
    expect(reason).toBe("FailedToFindObjInMemberCluster");
    expect(message).toBe('cannot get ConfigMap n/unreadable: User "agent" cannot find resource "configmaps"');
  });

  it("is ManifestApplyFailed where the agent may not write it, with the verb and the object; others are applied", async () => {
    await hinder((it) => void (it.plural === "secrets" && forbidden(it)));
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace: "n", name: "s" },
      stringData: { k: "hidden" },
    };
    const { work, reason, message } = await reported("unwritable", [secret, configMap("n", "writable")]);
    expect(reason).toBe("ManifestApplyFailed");
    expect(message).toBe("cannot create Secret n/s: Forbidden");
    expect(reasonOf(work, 1)).toBe("Applied");
  });

  it("is tried again when its time has come, without being asked for", async () => {
    let failures = 1;
    await hinder((it) => {
      if (it.name === "later" && failures-- > 0) forbidden(it);
    });
    await place(workOf("later", [configMap("n", "later")]));
    await eventuallyWork(bench, "later", (it) => reasonOf(it, 0) === "ManifestApplyFailed");
    await eventuallyWork(bench, "later", isApplied);
  });

  it("is PreparingToProcess while it waits for one that hangs, and what was applied since is reported", async () => {
    const [hangs, later] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    // The applier cannot stop before, whatever comes of the test.
    using _released = { [Symbol.dispose]: () => [hangs, later].forEach((it) => it.resolve()) };
    await hinder(async (it) => {
      if (it.name === "hangs") await hangs.promise;
      if (it.name === "held") await later.promise;
    });
    const widget = { apiVersion: "batch/v1", kind: "CronJob", metadata: { namespace: "n", name: "waits" } };
    const others = ["hangs", "goes-on", "held"].map((it) => configMap("n", it));
    await place(workOf("hangs", [widget, ...others]));
    const areReported = (...reasons: readonly string[]) =>
      eventuallyWork(bench, "hangs", (work) => reasons.every((it, at) => reasonOf(work, at) === it));
    await areReported("PreparingToProcess", "PreparingToProcess", "Applied", "PreparingToProcess");
    later.resolve();
    await areReported("PreparingToProcess", "PreparingToProcess", "Applied", "Applied");
    hangs.resolve();
    await areReported("ManifestApplyFailed", "Applied", "Applied", "Applied");
  });
});

describe("an object that the Work has no longer", () => {
  it("is named in the condition of the Work while it cannot be deleted", async () => {
    const work = await place(workOf("stays", [configMap("n", "stays"), configMap("n", "other")]));
    await eventuallyWork(bench, "stays", isApplied);
    await hinder((it) => void (it.verb === "delete" && forbidden(it)));
    const manifests = [configMap("n", "other")];
    await bench.hub.client.mergePatch(WORKS, keyOf(work), { spec: { workload: { manifests } } });
    const message =
      'all manifests are applied; what the Work has no longer stays: cannot delete ConfigMap n/stays: User "agent" cannot delete resource "configmaps"';
    await eventuallyWork(
      bench,
      "stays",
      (it) =>
        isApplied(it) && it.metadata.generation === 2 && it.status?.conditions?.[0]?.message === message,
    );
    await bench.restart();
    await eventuallyWork(
      bench,
      "stays",
      (it) => it.status?.conditions?.[0]?.message === "all manifests are applied",
    );
  });
});

describe("an object that was there before", () => {
  it("is taken over by default, with what others set in it", async () => {
    await create("before", { a: "other", mine: "1" });
    const { work } = await reported("take", [configMap("n", "before")]);
    expect(isApplied(work)).toBe(true);
    expect((await inMember("before")).data).toEqual({ a: "1", mine: "1" });
  });

  it("is NotTakenOver with whenToTakeOver Never", async () => {
    await create("never", { a: "other" });
    const { reason } = await reported("never", [configMap("n", "never")], { whenToTakeOver: "Never" });
    expect(reason).toBe("NotTakenOver");
    expect(await inMember("never")).toMatchObject({ data: { a: "other" } });
    expect((await inMember("never")).metadata.ownerReferences).toBeUndefined();
  });

  it("is FailedToTakeOver with IfNoDiff while it differs, and taken over once it does not", async () => {
    await create("if-no-diff", { a: "other", mine: "1" });
    const { work, reason } = await reported("if-no-diff", [configMap("n", "if-no-diff")], {
      whenToTakeOver: "IfNoDiff",
    });
    expect(reason).toBe("FailedToTakeOver");
    expect(manifestOf(work, 0).diffDetails?.observedDiffs).toEqual([
      { path: "/data/a", valueInMember: "other", valueInHub: "1" },
    ]);
    await change("if-no-diff", { a: "1" });
    const taken = await eventuallyWork(bench, "if-no-diff", isApplied);
    expect(manifestOf(taken, 0).diffDetails).toBeUndefined();
    expect((await inMember("if-no-diff")).metadata.ownerReferences).toHaveLength(1);
  });

  it("is FailedToTakeOver with IfNoDiff and a full comparison if it has fields more", async () => {
    await create("full", { a: "1", mine: "1" });
    const strategy = { whenToTakeOver: "IfNoDiff", comparisonOption: "FullComparison" } as const;
    const { work, reason } = await reported("full", [configMap("n", "full")], strategy);
    expect(reason).toBe("FailedToTakeOver");
    expect(manifestOf(work, 0).diffDetails?.observedDiffs).toEqual([
      { path: "/data/mine", valueInMember: "1" },
    ]);
  });

  it("is FailedToTakeOver with IfNoDiff where the comparison is refused", async () => {
    await create("unknown", { a: "1" });
    await hinder((it) => void (it.isDryRun && forbidden(it)));
    const { reason } = await reported("unknown", [configMap("n", "unknown")], { whenToTakeOver: "IfNoDiff" });
    expect(reason).toBe("FailedToTakeOver");
  });

  it("is ManifestsAlreadyOwnedByOthers with another owner, unless co-ownership is allowed", async () => {
    const owner = await create("owner", {});
    const reference = { apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: owner.metadata.uid ?? "" };
    await create("owned", { a: "other" }, { ownerReferences: [reference] });
    const { work, reason } = await reported("owned", [configMap("n", "owned")]);
    expect(reason).toBe("ManifestsAlreadyOwnedByOthers");
    expect((await inMember("owned")).data).toEqual({ a: "other" });
    await bench.hub.client.mergePatch(WORKS, keyOf(work), {
      spec: { applyStrategy: { allowCoOwnership: true } },
    });
    await eventuallyWork(bench, "owned", isApplied);
    expect((await inMember("owned")).metadata.ownerReferences?.map((it) => it.kind)).toEqual([
      "ConfigMap",
      "AppliedWork",
    ]);
  });
});

describe("an object of two Works", () => {
  it("is ApplyConflictBetweenPlacements for the later placement, even with co-ownership, until the first gives it up", async () => {
    await place(workOf("first", [configMap("n", "contested", { a: "first" })]));
    await eventuallyWork(bench, "first", isApplied);
    const second = [configMap("n", "contested", { a: "second" })];
    const { reason, message } = await reported("second", second, { allowCoOwnership: true });
    expect(reason).toBe("ApplyConflictBetweenPlacements");
    expect(message).toContain("Work first");
    expect((await inMember("contested")).data).toEqual({ a: "first" });
    await bench.hub.client.delete(WORKS, objectKey("fleet-member-a", "first"));
    await eventuallyWork(bench, "second", isApplied);
    expect((await inMember("contested")).data).toEqual({ a: "second" });
  });

  it.each(["ClientSideApply", "ServerSideApply"] as const)(
    "that share it by priority says what the higher one says, and stays when that one goes (%s)",
    async (type) => {
      const name = `shared-${type.toLowerCase()}`;
      const [low, high] = [`${name}-low`, `${name}-high`];
      const at = (sharedPriority: number): ApplyStrategy => ({ type, sharedPriority });
      const data = async (): Promise<unknown> => (await inMember(name)).data;
      const owners = async (): Promise<string[]> =>
        ((await inMember(name)).metadata.ownerReferences ?? []).map((it) => it.name).toSorted();
      await reported(low, [configMap("n", name, { a: "low", b: "low" })], at(1));
      const { uid } = (await inMember(name)).metadata;
      const first = await reported(high, [configMap("n", name, { a: "high" })], at(2));
      expect(first.reason).toBe("Applied");
      await expect.poll(data, PATIENCE).toEqual({ a: "high" });
      await expect.poll(owners, PATIENCE).toEqual([high, low]);
      const loser = await eventuallyWork(bench, low, (it) =>
        JSON.stringify(it.status).includes(`is applied by Work ${high}`),
      );
      expect(conditionOf(loser, "Applied")).toBe("True AllManifestsApplied");
      // Lower than the other one now.
      await bench.hub.client.mergePatch(WORKS, objectKey("fleet-member-a", high), {
        spec: { applyStrategy: { sharedPriority: 0 } },
      });
      await expect.poll(data, PATIENCE).toEqual({ a: "low", b: "low" });
      await bench.hub.client.mergePatch(WORKS, objectKey("fleet-member-a", high), {
        spec: { applyStrategy: { sharedPriority: 3 } },
      });
      await expect.poll(data, PATIENCE).toEqual({ a: "high" });
      await bench.hub.client.delete(WORKS, objectKey("fleet-member-a", high));
      await expect.poll(data, PATIENCE).toEqual({ a: "low", b: "low" });
      await expect.poll(owners, PATIENCE).toEqual([low]);
      expect((await inMember(name)).metadata.uid).toBe(uid);
    },
  );

  it("moves from one Work to another of the same placement without being deleted", async () => {
    const source = await place(workOf("part-0", [configMap("n", "moves")], { placement: "parts" }));
    await eventuallyWork(bench, "part-0", isApplied);
    const { uid } = (await inMember("moves")).metadata;
    await place(workOf("part-1", [configMap("n", "moves")], { placement: "parts" }));
    await eventuallyWork(bench, "part-1", isApplied);
    await bench.hub.client.mergePatch(WORKS, keyOf(source), { spec: { workload: { manifests: [] } } });
    const moved = await eventuallyOne(
      bench.member.client,
      CONFIG_MAPS,
      objectKey("n", "moves"),
      (it) => it.metadata.ownerReferences?.length === 1,
    );
    expect([moved.metadata.uid, moved.metadata.ownerReferences?.[0]?.name]).toEqual([uid, "part-1"]);
  });
});

describe("drift", () => {
  const keep = { whenToApply: "IfNotDrifted" } as const;

  it("is FoundDrifts with IfNotDrifted, is not overwritten, and is applied over once it is gone or the manifest changes", async () => {
    const { work } = await reported("drifts", [configMap("n", "drifts")], keep);
    expect(isApplied(work)).toBe(true);
    await change("drifts", { a: "drifted", mine: "1" });
    const drifted = await seen("drifts", "Applied", (it) => it === "FoundDrifts");
    const details = manifestOf(drifted.work, 0).driftDetails;
    expect(details?.observedDrifts).toEqual([{ path: "/data/a", valueInMember: "drifted", valueInHub: "1" }]);
    expect(details?.observedInMemberClusterGeneration).toBeDefined();
    expect((await inMember("drifts")).data).toEqual({ a: "drifted", mine: "1" });
    await change("drifts", { a: "1" });
    const back = await eventuallyWork(bench, "drifts", isApplied);
    expect(manifestOf(back, 0).driftDetails).toBeUndefined();
    await change("drifts", { a: "drifted" });
    await seen("drifts", "Applied", (it) => it === "FoundDrifts");
    await bench.hub.client.mergePatch(WORKS, keyOf(work), {
      spec: { workload: { manifests: [configMap("n", "drifts", { a: "2" })] } },
    });
    await eventuallyWork(bench, "drifts", isApplied);
    expect((await inMember("drifts")).data).toEqual({ a: "2", mine: "1" });
  });

  it("is FoundDriftsInDegradedMode where the manifest is not valid for a server-side apply", async () => {
    const unknownField = { ...configMap("n", "degraded"), unknown: 1 };
    await reported("degraded", [unknownField], keep);
    await change("degraded", { mine: "1" });
    const found = await seen("degraded", "Applied", (it) => it === "FoundDriftsInDegradedMode");
    expect(found.message).toContain("degraded");
    expect(manifestOf(found.work, 0).driftDetails?.observedDrifts).toEqual([
      { path: "/data/mine", valueInMember: "1" },
      { path: "/unknown", valueInHub: "1" },
    ]);
  });

  it("is FailedToRunDriftDetection where the comparison is refused", async () => {
    await reported("undetected", [configMap("n", "undetected")], keep);
    await hinder((it) => void (it.isDryRun && forbidden(it)));
    const { reason } = await seen("undetected", "Applied", (it) => it === "FailedToRunDriftDetection");
    expect(reason).toBe("FailedToRunDriftDetection");
  });

  it("is reported and stays, of fields that the manifest does not have, with a full comparison", async () => {
    const strategy = { comparisonOption: "FullComparison" } as const;
    await reported("more", [configMap("n", "more")], strategy);
    await change("more", { a: "drifted", mine: "1" });
    const found = await eventuallyWork(bench, "more", (it) => manifestOf(it, 0).driftDetails !== undefined);
    await eventuallyOne(
      bench.member.client,
      CONFIG_MAPS,
      objectKey("n", "more"),
      (it) => it.data?.["a"] === "1",
    );
    expect(reasonOf(found, 0)).toBe("Applied");
    const settled = await eventuallyWork(
      bench,
      "more",
      (it) => manifestOf(it, 0).driftDetails?.observedDrifts?.length === 1,
    );
    expect(manifestOf(settled, 0).driftDetails?.observedDrifts).toEqual([
      { path: "/data/mine", valueInMember: "1" },
    ]);
  });
});

describe("ReportDiff", () => {
  const strategy = { type: "ReportDiff" } as const;

  it("is FoundDiff for an object that the member does not have, and writes nothing", async () => {
    const { work, reason } = await reported(
      "absent",
      [namespace("absent"), configMap("absent", "x")],
      strategy,
    );
    expect(reason).toBe("FoundDiff");
    expect(manifestOf(work, 0).diffDetails?.observedDiffs).toEqual([
      { path: "/", valueInHub: "(the whole object)" },
    ]);
    expect(conditionOf(work, "DiffReported")).toBe("True AllManifestsDiffReported");
    expect([conditionOf(work, "Applied"), conditionOf(work, "Available")]).toEqual(["", ""]);
  });

  it("is FoundDiff while an object differs, and NoDiffFound once it does not", async () => {
    await create("differs", { a: "other", mine: "1" });
    const { work, reason } = await reported("differs", [configMap("n", "differs")], strategy);
    expect(reason).toBe("FoundDiff");
    expect(manifestOf(work, 0).diffDetails?.observedDiffs).toEqual([
      { path: "/data/a", valueInMember: "other", valueInHub: "1" },
    ]);
    expect((await inMember("differs")).metadata.ownerReferences).toBeUndefined();
    await change("differs", { a: "1" });
    const same = await seen("differs", "DiffReported", (it) => it === "NoDiffFound");
    expect(manifestOf(same.work, 0).diffDetails).toBeUndefined();
  });

  it("lists 100 differences of an object, or as many as maxDifferences says", async () => {
    const data = Object.fromEntries(Array.from({ length: 250 }, (_, at) => [`k${at}`, "here"]));
    const wanted = Object.fromEntries(Object.keys(data).map((key) => [key, "there"]));
    await create("many", data);
    const counts: (number | undefined)[] = [];
    for (const [name, more] of [
      ["many-default", {}],
      ["many-more", { maxDifferences: 200 }],
    ] as const) {
      const { work } = await reported(name, [configMap("n", "many", wanted)], { ...strategy, ...more });
      counts.push(manifestOf(work, 0).diffDetails?.observedDiffs?.length);
    }
    expect(counts).toEqual([100, 200]);
  });

  it("is FoundDiffInDegradedMode where the manifest is not valid for a server-side apply", async () => {
    await create("diff-degraded", { a: "1" });
    const { reason } = await reported(
      "diff-degraded",
      [{ ...configMap("n", "diff-degraded"), unknown: 1 }],
      strategy,
    );
    expect(reason).toBe("FoundDiffInDegradedMode");
  });

  it("is FailedToReportDiff where the comparison is refused", async () => {
    await create("diff-refused", { a: "1" });
    await hinder((it) => void (it.isDryRun && forbidden(it)));
    const { work, reason } = await reported("diff-refused", [configMap("n", "diff-refused")], strategy);
    expect(reason).toBe("FailedToReportDiff");
    expect(conditionOf(work, "DiffReported")).toBe("False SomeManifestsHaveNotReportedDiff");
  });
});

describe("ServerSideApply", () => {
  it("owns what it applies, removes what the manifest has no longer, and keeps what others set", async () => {
    const strategy = { type: "ServerSideApply" } as const;
    const { work } = await reported("on-server", [configMap("n", "on-server", { a: "1", b: "2" })], strategy);
    expect(isApplied(work)).toBe(true);
    await change("on-server", { mine: "1" });
    await bench.hub.client.mergePatch(WORKS, keyOf(work), {
      spec: { workload: { manifests: [configMap("n", "on-server", { a: "1" })] } },
    });
    await eventuallyWork(bench, "on-server", isApplied);
    const found = await inMember("on-server");
    expect(found.data).toEqual({ a: "1", mine: "1" });
    expect(Object.keys(found.metadata.annotations ?? {})).toEqual([SPEC_HASH_ANNOTATION]);
  });

  it("fails where another manager has a field, unless it is forced", async () => {
    await bench.member.client.apply(
      CONFIG_MAPS,
      { metadata: { namespace: "n", name: "taken" }, data: { a: "other" } },
      { fieldManager: "other" },
    );
    const strategy = { type: "ServerSideApply" } as const;
    const { work, reason, message } = await reported("taken", [configMap("n", "taken")], strategy);
    expect(reason).toBe("ManifestApplyFailed");
    expect(message).toContain('conflict with "other"');
    await bench.hub.client.mergePatch(WORKS, keyOf(work), {
      spec: { applyStrategy: { ...strategy, serverSideApplyConfig: { force: true } } },
    });
    await eventuallyWork(bench, "taken", isApplied);
    expect((await inMember("taken")).data).toEqual({ a: "1" });
  });

  it("takes over from a client-side apply of its own without a conflict", async () => {
    const { work } = await reported("changes", [configMap("n", "changes", { a: "1", b: "1" })]);
    await bench.hub.client.mergePatch(WORKS, keyOf(work), {
      spec: {
        applyStrategy: { type: "ServerSideApply" },
        workload: { manifests: [configMap("n", "changes", { a: "2" })] },
      },
    });
    await eventuallyWork(bench, "changes", isApplied);
    expect((await inMember("changes")).data).toEqual({ a: "2" });
  });

  it("takes the place of a client-side apply whose annotations would be too large", async () => {
    const { work } = await reported("large", [configMap("n", "large", { a: "x".repeat(300_000) })]);
    expect(isApplied(work)).toBe(true);
    expect(Object.keys((await inMember("large")).metadata.annotations ?? {})).toEqual([SPEC_HASH_ANNOTATION]);
  });
});

describe("a status that is reported back", () => {
  it("is in the Work, with the kind of its object", async () => {
    const service = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { namespace: "n", name: "back" },
      spec: { type: "LoadBalancer", ports: [{ port: 80 }] },
    };
    const work = workOf("back", [service], {
      reportBackStrategy: { type: "Mirror", destination: "WorkAPI" },
    });
    await place(work);
    await eventuallyWork(bench, "back", isApplied);
    const status = { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } };
    await bench.member.client.mergePatch<Service>(
      SERVICES,
      objectKey("n", "back"),
      { status },
      { subresource: "status" },
    );
    const found = await eventuallyWork(
      bench,
      "back",
      (it) => conditionOf(it, "Available") === "True AllManifestsAvailable",
    );
    const observedStatus = manifestOf(found, 0).backReportedStatus?.observedStatus;
    expect(observedStatus).toMatchObject({ apiVersion: "v1", kind: "Service", status });
  });
});

describe("health rules of a placement", () => {
  it("decide when objects of a kind are available, Jobs included", async () => {
    restore = true;
    await bench.restart({ compileHealth });
    const template = { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } };
    const job = {
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { namespace: "n", name: "job" },
      spec: { template },
    };
    const healthRules = [
      { group: "batch", kind: "Job", available: "object.status.succeeded >= object.spec.completions" },
      { kind: "ConfigMap", available: "object.data.phase ==" },
    ];
    await place(workOf("job", [job], { applyStrategy: { healthRules } }));
    await place(workOf("broken", [configMap("n", "broken")], { applyStrategy: { healthRules } }));
    const waiting = await eventuallyWork(bench, "job", (it) => conditionOf(it, "Available") !== "");
    expect(conditionOf(waiting, "Available")).toBe("False SomeManifestsAreNotAvailable");
    expect(reasonOf(waiting, 0, "Available")).toBe("ManifestNotAvailableYet");
    const status = { succeeded: 1 };
    await bench.member.client.mergePatch(JOBS, objectKey("n", "job"), { status }, { subresource: "status" });
    await eventuallyWork(bench, "job", (it) => conditionOf(it, "Available") === "True AllManifestsAvailable");
    const broken = await eventuallyWork(bench, "broken", (it) => conditionOf(it, "Available") !== "");
    expect(reasonOf(broken, 0, "Available")).toBe("Failed");
    expect(manifestOf(broken, 0).conditions?.[1]?.message).toContain(
      "the health rule of ConfigMap is invalid",
    );
  });
});
