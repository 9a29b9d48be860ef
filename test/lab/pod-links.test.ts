/** The links of all pods of a node, kept by an agent that may start at any time. */

import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import type { PodLink } from "@fairlead/fleet/dataplane/pod-attachment/link.ts";
import { vethName } from "@fairlead/fleet/dataplane/pod-attachment/names.ts";
import { PodLinks } from "@fairlead/fleet/dataplane/pod-attachment/pod-links.ts";
import { FakePodRuntime } from "@fairlead/os/cri/runtime.fake.ts";
import { readNetwork, runIpLines } from "@fairlead/os/iproute/driver.ts";
import { addVethPair, deleteLink, deleteRoute, setLink } from "@fairlead/os/iproute/lines.ts";
import { createNetns, deleteNetns } from "@fairlead/os/netns/netns.ts";
import { describeOnKernel, devicesIn, netnsFixture } from "../support/netns-fixture.ts";

const signal = AbortSignal.timeout(110_000);
const PREFIX = "10.112.0.0/12";
const linkOf = (podUID: string, at: number): PodLink => ({
  podUID,
  addresses: [`10.112.1.${at}`],
  ownAddresses: [],
  prefixes: [PREFIX],
  mtu: 1400,
});

describeOnKernel("an agent that keeps the links of pods", () => {
  const fixture = netnsFixture();
  let fleet: string;
  const pod: Record<string, string> = {};
  const a = linkOf("a", 5);
  const b = linkOf("b", 6);
  let runtime: FakePodRuntime;
  let clock: FakeClock;
  let agent: PodLinks;
  const newAgent = (): PodLinks => new PodLinks({ runtime, clock, fleet });
  const run = (podUid: string, netns: string): void =>
    runtime.run({ podUid, podNamespace: "work", podName: podUid, netns });
  const attached = async (...links: readonly PodLink[]): Promise<readonly string[]> => [
    ...(await agent.sync(links, signal)).attached,
  ];
  const hasRoute = async (uid: string): Promise<boolean> => {
    const { routes } = await readNetwork(["eth-fleet"], { netns: pod[uid] ?? "", signal });
    return routes.some((it) => it.to === PREFIX);
  };

  beforeAll(async () => {
    fleet = await fixture.netns("fleet");
    for (const it of ["a", "b"]) pod[it] = await fixture.netns(it);
  });
  beforeEach(() => {
    runtime = new FakePodRuntime();
    clock = new FakeClock();
    agent = newAgent();
    for (const [uid, netns] of Object.entries(pod)) run(uid, netns);
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  it("attaches those that are wanted and run, and returns them", async () => {
    expect(await attached(a, linkOf("starts", 9))).toEqual(["a"]);
    expect(await devicesIn(fleet)).toEqual(["lo", vethName("a")]);
    expect(await attached(a, b)).toEqual(["a", "b"]);
  });

  it("reads a link again at once when its device is lost or down, and after five minutes in any case", async () => {
    await attached(a, b);
    await runIpLines([deleteLink(vethName("a"))], { netns: fleet, signal });
    await runIpLines([setLink(vethName("b"), { up: false })], { netns: fleet, signal });
    expect(await attached(a, b)).toEqual(["a", "b"]);
    expect([await hasRoute("a"), await hasRoute("b")]).toEqual([true, true]);

    await runIpLines([deleteRoute({ to: PREFIX, table: 10_114 })], { netns: pod["a"] ?? "", signal });
    await attached(a, b);
    expect(await hasRoute("a")).toBe(false);
    await clock.advance(300_000);
    await attached(a, b);
    expect(await hasRoute("a")).toBe(true);
  });

  it("detaches pods that run and are no longer wanted, also those that an earlier agent attached", async () => {
    await attached(a, b);
    agent = newAgent();
    expect(await attached(a)).toEqual(["a"]);
    expect(await devicesIn(fleet)).toEqual(["lo", vethName("a")]);
    expect(await devicesIn(pod["b"] ?? "")).toEqual(["lo"]);
  });

  it("follows a pod to a new sandbox, and removes what is left of one that ended", async () => {
    await attached(a);
    const again = await fixture.netns("a-again");
    run("a", again);
    expect(await attached(a)).toEqual(["a"]);
    expect(await devicesIn(again)).toContain("eth-fleet");
    runtime.end("a");
    expect(await attached()).toEqual([]);
    expect(await devicesIn(fleet)).toEqual(["lo"]);
  });

  it("attaches all again when the fleet namespace was made again", async () => {
    await attached(a, b);
    await deleteNetns(fleet, signal);
    await createNetns(fleet, signal);
    // The kernel removes the pods' ends of the former links when it has the time.
    await expect.poll(() => attached(a, b)).toEqual(["a", "b"]);
    expect(await devicesIn(fleet)).toEqual(expect.arrayContaining([vethName("a"), vethName("b")]));
  });

  it("reports a pod that cannot be attached, and attaches the others", async () => {
    const own = await fixture.netns("own");
    await runIpLines([addVethPair({ device: "eth-fleet" }, { device: "other" })], { netns: own, signal });
    run("own", own);
    run("nowhere", "/run/absent");
    const result = await agent.sync([linkOf("own", 9), linkOf("nowhere", 8), a], signal);
    expect([...result.attached]).toEqual(["a"]);
    expect(result.problems.get("own")).toContain("a device eth-fleet that Fairlead did not make");
    expect(result.problems.get("nowhere")).toContain("/run/absent");
  });
});
