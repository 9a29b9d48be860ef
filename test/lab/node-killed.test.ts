/** An agent of a node that is killed at any step, loses its folder, or is there twice: what it keeps comes out the same. */

import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { exec } from "@fairlead/base/exec.ts";
import { until } from "../support/waiting.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";
import { Killer } from "./killer.ts";
import { NETWORK, NodeAgentWorld } from "./node-agent-world.ts";

/** It is killed at each step of so many; in `npm run test:full` at more of them. */
const EVERY = Number(process.env["KILL_EVERY"] ?? 40);
const PATIENCE = { timeoutMs: 90_000 };

/** Of each part of the state something. */
const ALL = ["eth-fleet", "fl-wg01", "10.112.8.0/21", "10.127.0.9", "8080", "basePort"];

/** What happens to a node, and its end. No agent runs at the end. */
interface Change {
  readonly what: string;
  readonly begin: () => Promise<void>;
  readonly end: () => Promise<void>;
  /** What the state has afterwards. */
  readonly marks: readonly string[];
}

describeOnKernel("the agent of a node", () => {
  const fixture = netnsFixture();
  let world: NodeAgentWorld;
  let killer: Killer;
  /** What an agent makes to which nothing happens. */
  let wanted: string;
  let steps: number;

  beforeAll(async () => {
    world = await NodeAgentWorld.start(await fixture.netns("pod"));
    killer = new Killer(join(world.folder, "bin"));
    {
      await using _agent = world.startAgent();
      wanted = await settled();
      steps = killer.started.length;
    }
    await leave();
  });
  afterAll(async () => {
    killer[Symbol.dispose]();
    await world[Symbol.asyncDispose]();
    await fixture[Symbol.asyncDispose]();
  });

  /** The state once it has everything, and stays. */
  async function settled(all: readonly string[] = ALL): Promise<string> {
    let before = "";
    return until(
      "the agent has settled",
      () => world.state(),
      (state) => {
        const isSame = state === before;
        before = state;
        return isSame && all.every((it) => state.includes(it));
      },
      { ...PATIENCE, everyMs: 300 },
    );
  }

  /** The node is taken out of the network. */
  async function leave(): Promise<void> {
    const network = await world.client.get(MESH_NETWORKS, NETWORK);
    await world.client.delete(MESH_NETWORKS, NETWORK);
    {
      await using _agent = world.startAgent();
      await until(
        "nothing is left",
        async () => ({ state: await world.state(), host: (await exec("ip", ["-br", "link"])).stdout }),
        ({ state, host }) => state === "no namespace" && !host.includes("fl-host"),
        PATIENCE,
      );
    }
    world.client.seed(MESH_NETWORKS, { metadata: network.metadata, spec: network.spec });
  }

  async function untilAsWanted(state = wanted): Promise<void> {
    const expected = new Set(state.split("\n"));
    const difference = async (): Promise<readonly string[]> => {
      const lines = new Set((await world.state()).split("\n"));
      const missing = [...expected.difference(lines)].map((it) => `- ${it}`);
      return [...missing, ...[...lines.difference(expected)].map((it) => `+ ${it}`)];
    };
    await until("the state is that of an agent that lived", difference, (it) => it.length === 0, PATIENCE);
  }

  it("that is killed at any step has left nothing that the next one does not repair, and that one leaves nothing behind", async () => {
    expect(steps).toBeGreaterThan(20);
    for (let at = 1; at <= steps; at += EVERY)
      for (const when of at % 2 === 0 || EVERY === 1
        ? (["before", "after"] as const)
        : (["after"] as const)) {
        killer.arm(at, when);
        {
          await using _killed = world.startAgent();
          await until(
            `the agent is killed ${when} step ${at}, or has done all`,
            async () => killer.isDead || (await world.state()) === wanted,
            Boolean,
            PATIENCE,
          );
        }
        const [last = ""] = killer.started.slice(-1);
        killer.arm(0, "before");
        {
          await using _next = world.startAgent();
          await untilAsWanted().catch((error: unknown) => {
            throw new Error(`killed ${when} step ${at}: ${last}`, { cause: error });
          });
        }
        await leave();
      }
  }, 900_000);

  it.each<Change>([
    {
      what: "adds a pod",
      begin: async () => world.addPod(await fixture.netns("second")),
      end: () => world.forgetPod(),
      marks: ["10.112.0.0/24", "# second\neth-fleet"],
    },
    {
      what: "learns of another node",
      begin: () => Promise.resolve(world.addNode()),
      end: () => world.removeNode(),
      marks: ["fl-nodes01", "10.112.1.0/24"],
    },
    {
      what: "makes the keys of another epoch",
      begin: () => world.useEpoch(2),
      end: () => world.useEpoch(1),
      // The table names the devices of all tunnels that there may be.
      marks: ['"keys":2', "dev fl-wg00"],
    },
  ])(
    "that is killed while it $what on a node that works leaves nothing that the next one does not repair",
    async ({ begin, end, marks }) => {
      const undo = async (): Promise<void> => {
        await end();
        await using _agent = world.startAgent();
        await untilAsWanted();
      };
      let changed: string;
      let changes: number;
      {
        await using _agent = world.startAgent();
        await untilAsWanted();
        killer.arm(0, "before");
        await begin();
        changed = await settled([...ALL, ...marks]);
        changes = killer.started.length;
      }
      await undo();
      const most = (changes * 3) / 4;
      for (let at = Math.ceil(Math.min(EVERY, changes) / 2); at <= most; at += EVERY) {
        {
          await using _killed = world.startAgent();
          await untilAsWanted();
          killer.arm(at, "after");
          await begin();
          // Fewer steps may do, if they take more at once.
          await until(
            `the agent is killed after step ${at}, or has done all`,
            async () => killer.isDead || (await world.state()) === changed,
            Boolean,
            PATIENCE,
          );
        }
        const [last = ""] = killer.started.slice(-1);
        killer.arm(0, "before");
        {
          await using _next = world.startAgent();
          await untilAsWanted(changed).catch((error: unknown) => {
            throw new Error(`killed after step ${at}: ${last}`, { cause: error });
          });
        }
        await undo();
      }
    },
    900_000,
  );

  it("removes the VXLAN device of an earlier version, and takes its UDP port", async () => {
    {
      await using _agent = world.startAgent();
      await untilAsWanted();
    }
    const type = ["type", "vxlan", "id", "7112", "dstport", "4802", "nolearning"];
    await world.run(undefined, "ip", ["link", "add", "fl-vxlan", "netns", world.fleet, ...type]);
    expect(await world.run(world.fleet, "ip", ["-br", "link"])).toContain("fl-vxlan");
    {
      await using _agent = world.startAgent();
      await untilAsWanted();
      world.addNode();
      await settled([...ALL, "fl-nodes01"]);
    }
    await world.removeNode();
    await using _agent = world.startAgent();
    await untilAsWanted();
  });

  it("that lost its folder makes the same again, with a new key, and the addresses that pods had", async () => {
    {
      await using _agent = world.startAgent();
      await untilAsWanted();
    }
    await world.loseStateFolder();
    await using _agent = world.startAgent();
    await untilAsWanted();
  });

  it("that is started a second time by mistake changes nothing, and takes over when the first one ends", async () => {
    // The ports of the agent's own sockets.
    const ports = (): Promise<string> =>
      world.run(undefined, "nft", ["list", "table", "inet", "fairlead-ports"]);
    const former = await ports();
    const first = world.startAgent();
    const before = await until("the first one works", ports, (it) => it !== former, PATIENCE);
    await using _second = world.startAgent();
    expect(await settled()).toBe(wanted);
    expect(await ports()).toBe(before);
    await first[Symbol.asyncDispose]();
    await until("the second one works", ports, (it) => it !== before, PATIENCE);
    await untilAsWanted();
  });
});
