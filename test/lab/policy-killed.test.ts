/** An agent that is killed at any step of what it does about policies: the next one makes of it what an agent that lived made. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MESH_NETWORKS, type MeshNetwork } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { NETWORK_POLICIES, type NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { until } from "../support/waiting.ts";
import { Killer } from "./killer.ts";
import { PolicyWorld } from "./policy-world.ts";

/** It is killed at each step of so many; in `npm run test:full` at all of them. */
const EVERY = Number(process.env["KILL_EVERY"] ?? 3);

/** Lets these pods reach x/a. Four peers are one set. */
function admitting(...pods: readonly string[]): NetworkPolicy {
  const from = pods.map((it) => ({ podSelector: { matchLabels: { pod: it } } }));
  return {
    metadata: { namespace: "x", name: "p" },
    spec: { podSelector: { matchLabels: { pod: "a" } }, ingress: [{ from, ports: [{ port: 80 }] }] },
  };
}

interface Change {
  readonly what: string;
  /** Of a node whose agent has set up `before`. */
  readonly begin: () => Promise<void>;
  readonly undo: () => Promise<void>;
  /** Which of the pods b and c reach x/a afterwards. Before, b does. */
  readonly reaching: readonly string[];
}

let world: PolicyWorld;
let killer: Killer;
let folder: string;
let network: MeshNetwork;
/** Of the last agent until it had done all. */
let steps = 0;

/** One change for the agent, too: it is there as a whole or not at all. */
async function admit(...pods: readonly string[]): Promise<void> {
  const { metadata, spec } = admitting(...pods);
  await world.client.mergePatch(NETWORK_POLICIES, objectKey(metadata.namespace, metadata.name), { spec });
}

async function label(pod: string, value: string): Promise<void> {
  await world.client.mergePatch(PODS, objectKey("x", pod), { metadata: { labels: { pod: value } } });
}

const CHANGES: readonly Change[] = [
  {
    what: "replaces the rules of a policy",
    begin: () => admit("c", "d", "e", "f"),
    undo: () => admit("b", "d"),
    reaching: ["c"],
  },
  {
    what: "sees a pod change its labels",
    begin: () => label("b", "z"),
    undo: () => label("b", "b"),
    reaching: [],
  },
  {
    what: "removes its table, as the cluster leaves the network",
    begin: () => world.client.delete(MESH_NETWORKS, keyOf(network)),
    undo: async () => world.client.seed(MESH_NETWORKS, { metadata: network.metadata, spec: network.spec }),
    reaching: ["b", "c"],
  },
];

describeOnKernel("the agent of a node with policies", () => {
  beforeAll(async () => {
    world = await PolicyWorld.start([
      { namespace: "x", name: "a", node: 1 },
      { namespace: "x", name: "b", node: 1 },
      { namespace: "x", name: "c", node: 2 },
      { namespace: "y", name: "d", node: 2 },
    ]);
    for (const it of [1, 2] as const) await world.stopAgent(it);
    const [found] = (await world.client.list(MESH_NETWORKS)).items;
    if (found === undefined) throw new Error("there is no network");
    network = found;
    folder = mkdtempSync(join(tmpdir(), "policy-killed-"));
    killer = new Killer(join(folder, "bin"));
    world.loadLibC = killer.loadLibC;
    await world.client.create(NETWORK_POLICIES, admitting("b", "d"));
  });
  afterAll(async () => {
    killer?.[Symbol.dispose]();
    rmSync(folder, { recursive: true, force: true });
    await world?.[Symbol.asyncDispose]();
  });

  /** The table of the node, whatever the order in which it was made. */
  async function state(): Promise<string> {
    const text = await world.table(1).catch(() => "no table");
    const lines = text.replaceAll(/ # handle \d+/g, "").split(/[\n,]/);
    return lines
      .map((it) => it.trim())
      .toSorted()
      .join("\n");
  }

  /** What an agent makes that lives. */
  async function lived(): Promise<string> {
    killer.arm(0, "before");
    await world.startAgent(1);
    steps = killer.started.length;
    return state();
  }

  async function untilState(wanted: string): Promise<void> {
    await until("the table is that of an agent that lived", state, (it) => it === wanted, { everyMs: 50 });
  }

  const reaches = (pod: string): Promise<boolean> => world.asks(`x/${pod}`, "x/a", { port: 80 });

  it("that is killed at any step of its start leaves nothing that the next one does not repair", async () => {
    await world.nft(1, "delete", "table", "inet", "fairlead-policy");
    const wanted = await lived();
    const starting = steps;
    expect(starting).toBeGreaterThan(2);
    for (let at = 1; at <= starting; at += EVERY)
      for (const when of ["before", "after"] as const) {
        await world.stopAgent(1);
        killer.arm(0, "before");
        await world.nft(1, "delete", "table", "inet", "fairlead-policy");
        killer.arm(at, when);
        await world.startAgent(1, false);
        // Fewer steps may do, if they take more at once.
        await until(
          `it is killed ${when} step ${at}, or has done all`,
          async () => killer.isDead || (await state()) === wanted,
          Boolean,
        );
        await world.stopAgent(1);
        expect(await lived(), `killed ${when} step ${at}`).toBe(wanted);
        expect([await reaches("b"), await reaches("c")]).toEqual([true, false]);
      }
    await world.stopAgent(1);
  }, 300_000);

  it.each(CHANGES)(
    "that is killed while it $what has done all or nothing, and the next one does the rest",
    async ({ begin, undo, reaching }) => {
      const before = await lived();
      killer.arm(0, "before");
      await begin();
      await world.settled();
      const changing = killer.started.length;
      const after = await state();
      expect(after).not.toBe(before);
      await undo();
      await world.settled();
      for (let at = 1; at <= changing; at += EVERY)
        for (const when of ["before", "after"] as const) {
          await untilState(before);
          const { handle } = await world.pod("x/b").peer.ask("open", {
            host: world.pod("x/a").peer.v4,
            port: 80,
          });
          killer.arm(at, when);
          await begin();
          let isDone = false;
          void world.settled().then(
            () => (isDone = true),
            () => {},
          );
          // Fewer steps may do, if they take more at once.
          await until(
            `it is killed ${when} step ${at}, or has done all`,
            () => Promise.resolve(killer.isDead || isDone),
            Boolean,
          );
          await world.stopAgent(1);
          killer.arm(0, "before");
          expect([before, after], `killed ${when} step ${at}`).toContain(await state());
          expect(await lived(), `killed ${when} step ${at}`).toBe(after);
          for (const it of ["b", "c"]) expect(await reaches(it)).toBe(reaching.includes(it));
          // A flow that was allowed is cut by the next agent if the killed one did not cut it.
          await expect
            .poll(() => says("b", handle), { interval: 100, message: `killed ${when} step ${at}` })
            .toBe(reaching.includes("b"));
          await undo();
          await world.settled();
        }
      await world.stopAgent(1);
    },
    300_000,
  );

  async function says(pod: string, handle: number | undefined): Promise<boolean> {
    if (handle === undefined) throw new Error("the connection is not open");
    const silence = new Promise<undefined>((resolve) => {
      systemClock.after(250, () => resolve(undefined));
    });
    const { peer } = world.pod(`x/${pod}`);
    return (await Promise.race([peer.ask("say", { handle }), silence])) !== undefined;
  }
});
