import { beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject, ObjectList } from "@fairlead/kube/api/meta/types.ts";
import type { ListOptions, WatchEvent, WatchOptions } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS, MEMBER_NAME_LABEL } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { awaitMembers, type Limits, readMembersByHub } from "./await-members.ts";

const LIMITS: Limits = { timeoutMs: 60_000, awayMs: 20_000 };
let clock: FakeClock;
let from: Hub;
let to: Hub;

/** A hub that knows which Leases it has sent. */
class Hub extends FakeKubeClient {
  readonly sent: string[] = [];

  override async list<T extends KubeObject>(of: Resource<T>, options: ListOptions): Promise<ObjectList<T>> {
    const listed = await super.list(of, options);
    for (const it of listed.items) this.#note(of, it);
    return listed;
  }

  override async *watch<T extends KubeObject>(
    of: Resource<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>> {
    for await (const event of super.watch(of, options, signal)) {
      if (event.type !== "BOOKMARK" && event.type !== "ERROR") this.#note(of, event.object);
      yield event;
    }
  }

  #note(of: Resource, object: KubeObject): void {
    if (of.kind === LEASES.kind) this.sent.push(keyOf(object));
  }
}

beforeEach(() => {
  clock = new FakeClock(Date.UTC(2026, 0, 1));
  [from, to] = [new Hub(clock), new Hub(clock)];
});

/** A member renews its Lease with a hub, by its own clock. */
async function renew(hub: FakeKubeClient, name: string): Promise<void> {
  const metadata = { namespace: mailboxOf(name), name, labels: { [MEMBER_NAME_LABEL]: name } };
  const spec = { holderIdentity: name, renewTime: new Date(clock.now()).toISOString() };
  await hub.apply(LEASES, { metadata, spec }, { fieldManager: "member" });
  await clock.advance(1);
}

async function join(name: string): Promise<void> {
  to.seed(MEMBER_CLUSTERS, {
    metadata: { name },
    spec: { identity: { kind: "User", name, apiGroup: "rbac.authorization.k8s.io" } },
  });
  await renew(from, name);
}

function move() {
  const deps = { clock, log: silentLogger, rng: seededRng(1), metrics: noMetrics };
  const sides = { from: { who: "one", client: from }, to: { who: "two", client: to } };
  return { ...sides, deps, signal: new AbortController().signal };
}

function wait(limits = LIMITS) {
  const moved: string[] = [];
  return { moved, ended: awaitMembers(move(), limits, (it) => void moved.push(it)) };
}

describe("members that are called to another hub", () => {
  it("are waited for until each reports there, by watches: nothing is listed again", async () => {
    for (const it of ["a", "b"]) await join(it);
    const { moved, ended } = wait();
    await clock.advance(10);
    const lists = [from, to].map((it) => it.reads.length);
    for (let at = 0; at < 10; at += 1) {
      await clock.advance(1000);
      for (const it of ["a", "b"]) await renew(from, it);
    }
    expect([from, to].map((it) => it.reads.length)).toEqual(lists);
    expect(moved).toEqual([]);
    await renew(to, "b");
    await clock.advance(0);
    expect(moved).toEqual(["b"]);
    await renew(to, "a");
    expect(await ended).toEqual({ moved: ["a", "b"], staying: [], present: [] });
    expect(moved).toEqual(["b", "a"]);
  });

  it("are found by their own Leases: those of the hub's nodes are not read", async () => {
    await join("a");
    const node = objectKey("kube-node-lease", "n1");
    const nodes = async (): Promise<void> => {
      for (const it of [from, to])
        await it.mergePatch(LEASES, node, { spec: { renewTime: new Date(clock.now()).toISOString() } });
    };
    for (const it of [from, to])
      it.seed(LEASES, { metadata: { namespace: "kube-node-lease", name: "n1" }, spec: {} });
    expect((await readMembersByHub(move())).staying).toEqual(["a"]);
    const { ended } = wait();
    await clock.advance(10);
    await nodes();
    await renew(from, "a");
    await nodes();
    await renew(to, "a");
    expect(await ended).toMatchObject({ moved: ["a"] });
    expect(new Set([...from.sent, ...to.sent])).toEqual(new Set([objectKey(mailboxOf("a"), "a")]));
  });

  it("are not waited for when they have been silent for 20 s, wherever they are", async () => {
    for (const it of ["a", "b"]) await join(it);
    const { ended } = wait();
    const began = clock.now();
    await clock.advance(10_000);
    await renew(from, "b");
    await renew(to, "b");
    void clock.advance(30_000);
    expect(await ended).toEqual({ moved: ["b"], staying: ["a"], present: [] });
    expect(clock.now() - began).toBeLessThan(20_100);
  });

  it("are named as present if they answer and have not switched when time is up", async () => {
    for (const it of ["a", "b"]) await join(it);
    const { ended } = wait({ timeoutMs: 30_000 });
    for (let at = 0; at < 6; at += 1) {
      await clock.advance(5000);
      await renew(from, "a");
    }
    expect(await ended).toEqual({ moved: [], staying: ["a", "b"], present: ["a"] });
  });

  it("cannot be waited for on a hub that does not answer: an error reports that when time is up", async () => {
    from.stop();
    const { ended } = wait({ timeoutMs: 5000 });
    void clock.advance(5000);
    await expect(ended).rejects.toMatchObject({
      code: "TIMED_OUT",
      message: "the members could not be read within 5 s",
    });
  });

  it("stay the same ones while a hub cannot be reached, and are looked at when it can", async () => {
    await join("a");
    const { ended } = wait();
    await clock.advance(10);
    to.stop();
    await clock.advance(5000);
    to.restore();
    await renew(to, "a");
    void clock.advance(40_000);
    expect(await ended).toMatchObject({ moved: ["a"], present: [] });
    expect(await from.find(LEASES, objectKey(mailboxOf("a"), "a"))).toBeDefined();
  });
});
