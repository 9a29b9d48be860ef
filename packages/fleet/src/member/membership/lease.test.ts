import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { INTERNAL_MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { delay } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import type { WriteOptions } from "@fairlead/kube/types.ts";
import { createMailboxInformers } from "../informers.ts";
import { WHOLE_MEMBER } from "../roles.ts";
import { type HubListener, keepLease } from "./lease.ts";

const MAILBOX = "fleet-member-a";
const LEASE_MS = 60_000;
const PACE_MS = LEASE_MS / 3;
/** A connection that swallows what is sent on it. */
const NEVER = Number.POSITIVE_INFINITY;
const REFUSED = new FleetError("API_UNAVAILABLE", "connection refused");

/** A hub that takes its time. */
class SlowHub extends FakeKubeClient {
  readonly #clock: FakeClock;
  /** How long the next renewals take, and all after them. Unit: milliseconds. */
  next: number[] = [];
  always = 0;
  readonly askedAtMs: number[] = [];
  readonly takenAtMs: number[] = [];

  constructor(clock: FakeClock) {
    super(clock);
    this.#clock = clock;
  }

  override async mergePatch<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    patch: object,
    options: WriteOptions = {},
  ): Promise<T> {
    const never = new AbortController().signal;
    this.askedAtMs.push(this.#clock.monotonic() - startedMs);
    await delay(this.#clock, this.next.shift() ?? this.always, options.signal ?? never);
    const taken = await super.mergePatch(of, key, patch, options);
    this.takenAtMs.push(this.#clock.monotonic() - startedMs);
    return taken;
  }
}

let clock: FakeClock;
let startedMs: number;
let hub: SlowHub;
let said: string[];
let propagation: string | undefined;
let stack: AsyncDisposableStack;

beforeEach(async () => {
  clock = new FakeClock();
  startedMs = clock.monotonic();
  hub = new SlowHub(clock);
  said = [];
  propagation = undefined;
  stack = new AsyncDisposableStack();
  hub.seed(INTERNAL_MEMBER_CLUSTERS, {
    metadata: { namespace: MAILBOX, name: "a" },
    spec: { state: "Join", leaseDurationSeconds: LEASE_MS / 1000 },
  });
  hub.seed(LEASES, { metadata: { namespace: MAILBOX, name: "a" } });
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const stop = new AbortController();
  const internalMembers = stack.use(
    createMailboxInformers(hub, { cluster: "a", isFleetOnly: false }, deps).internalMembers,
  );
  internalMembers.start(stop.signal);
  await internalMembers.synced(stop.signal);
  const received = {
    onBack: () => void said.push("back"),
    onSilent: () => void said.push("silent"),
    onAnswer: () => void said.push("answer"),
    onRestored: () => void said.push("restored"),
  };
  const session = {
    cluster: "a",
    part: WHOLE_MEMBER,
    hub,
    deps,
    hadInternalMember: () => true,
    mailbox: { internalMembers },
    stopwatch: { propagation: () => propagation },
    probes: { cutOff: [], lost: [], refused: [] },
  };
  begin = (more = {}) => {
    const kept = keepLease(session, { ...received, ...more }, stop.signal);
    stack.defer(async () => {
      stop.abort();
      await kept;
    });
  };
});
afterEach(() => stack.disposeAsync());

let begin: (more?: Pick<HubListener, "wasSilent">) => void;

/** Longest time between two renewals that the hub took. */
const longestGapMs = (): number =>
  Math.max(...hub.takenAtMs.slice(1).map((it, at) => it - (hub.takenAtMs[at] ?? 0)));

describe("a member's lease", () => {
  it("has how long changes of others took to arrive, while there were some lately", async () => {
    const reported = async (): Promise<string | undefined> => {
      const { metadata } = await hub.get(LEASES, objectKey(MAILBOX, "a"));
      return metadata.annotations?.["fairlead.dev/propagation"];
    };
    begin();
    await clock.advance(PACE_MS);
    expect(await reported()).toBeUndefined();
    propagation = "b=12/40/100";
    await clock.advance(PACE_MS);
    expect(await reported()).toBe("b=12/40/100");
    propagation = undefined;
    await clock.advance(PACE_MS);
    expect(await reported()).toBeUndefined();
  });

  it("ends with its first renewal a silence of the hub from before the start", async () => {
    begin({ wasSilent: true });
    await clock.advance(PACE_MS);
    expect(said).toEqual(["answer"]);
  });

  it("is renewed three times in its length, however long a renewal takes", async () => {
    hub.next = [0, 5000, 0, PACE_MS - 1];
    begin();
    await clock.advance(4 * PACE_MS);
    expect(hub.askedAtMs).toEqual([0, 1, 2, 3, 4].map((it) => it * PACE_MS));
  });

  it.each([0.5, 0.9])("does not run out at a hub that takes %d of a pace for everything", async (paces) => {
    hub.always = paces * PACE_MS;
    begin();
    await clock.advance(10 * LEASE_MS);
    expect(hub.takenAtMs.length).toBeGreaterThan(20);
    expect(longestGapMs()).toBeLessThanOrEqual(PACE_MS);
    expect(said).toEqual([]);
  });

  it("does not run out at a hub that takes longer than a pace", async () => {
    hub.always = 1.9 * PACE_MS;
    begin();
    await clock.advance(10 * LEASE_MS);
    expect(hub.takenAtMs.length).toBeGreaterThan(10);
    expect(longestGapMs()).toBeLessThan(LEASE_MS);
    expect(said).toEqual([]);
  });

  it("does not run out when a connection swallows a renewal: it is sent again on another", async () => {
    hub.next = [0, NEVER];
    begin();
    await clock.advance(2 * LEASE_MS);
    expect(hub.askedAtMs.slice(0, 4)).toEqual([0, 1, 2, 2].map((it) => it * PACE_MS));
    expect(longestGapMs()).toBeLessThan(LEASE_MS);
    expect(said).toEqual([]);
  });

  it("is renewed at the same pace when the hub refuses, and tells once that it is back", async () => {
    begin();
    await clock.advance(1);
    for (let count = 0; count < 5; count++) hub.failNext(REFUSED);
    await clock.advance(5 * PACE_MS);
    expect(hub.askedAtMs).toEqual([0, 1, 2, 3, 4, 5].map((it) => it * PACE_MS));
    await clock.advance(3 * PACE_MS);
    expect(said).toEqual(["silent", "answer", "back"]);
  });

  it("reports that the hub is silent if no renewal succeeded for a lease period, and when the hub is back", async () => {
    hub.next = [0, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER];
    begin();
    await clock.advance(LEASE_MS - 1);
    expect(said).toEqual([]);
    await clock.advance(1);
    expect(said).toEqual(["silent"]);
    await clock.advance(3 * LEASE_MS);
    expect(said).toEqual(["silent", "answer", "back"]);
  });

  it("shows that the hub was restored from a backup: its version is from before an earlier one", async () => {
    begin();
    await clock.advance(PACE_MS);
    const restore = hub.state.backup();
    await clock.advance(5 * PACE_MS);
    expect(said).toEqual([]);
    restore();
    await clock.advance(2 * PACE_MS);
    expect(said).toEqual(["restored"]);
  });

  it("is renewed as soon as the hub can be reached again", async () => {
    begin();
    await clock.advance(1);
    hub.stop();
    await clock.advance(PACE_MS);
    hub.restore();
    await hub.find(LEASES, objectKey(MAILBOX, "a"));
    await clock.advance(1);
    expect(hub.askedAtMs).toEqual([0, PACE_MS, PACE_MS + 1]);
  });
});
