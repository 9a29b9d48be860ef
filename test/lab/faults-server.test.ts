/** Flows that go on while API servers are slow, or say that there are too many requests. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { crowd } from "./crowd.ts";
import { slowDown } from "./fault-tools.ts";
import { EXPORTERS, type FaultyLab, IMPORTER, startFaultyLab } from "./faulty-lab.ts";
import { describeOnKernel } from "./netns-fixture.ts";

const [ONE, TWO] = EXPORTERS;
let world: FaultyLab;

describeOnKernel("a fleet whose API servers are overloaded", () => {
  beforeAll(async () => {
    world = await startFaultyLab("efserver");
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it("drops nothing that serves, and passes changes on, while the hub takes two seconds for each answer", async () => {
    await world.suffer(async () => {
      using _slow = slowDown(world.lab, "hub/apiserver");
      await world.scale(ONE, 3);
      await untilMet(ONE, 3);
      await world.scale(TWO, 1);
      await untilMet(TWO, 1);
    });
  });

  it("drops nothing that serves, and passes changes on, while an importer's own API server takes two seconds", async () => {
    await world.suffer(async () => {
      // Nobody there hears of a withdrawal, or can act on it, before its API server says so.
      const end = world.checker.mark("unmanaged", IMPORTER);
      {
        using _slow = slowDown(world.lab, `${IMPORTER}/apiserver`);
        await world.scale(ONE, 3);
        await untilMet(ONE, 3);
        await world.scale(TWO, 1);
        await untilMet(TWO, 1);
      }
      end();
    });
  });

  it("drops nothing that serves, and passes changes on, while the hub refuses half of what is written", async () => {
    await world.suffer(async () => {
      await using crowded = await crowd(world.lab, "hub");
      await world.scale(ONE, 3);
      await untilMet(ONE, 3);
      await world.scale(TWO, 1);
      await untilMet(TWO, 1);
      expect(Object.keys(crowded.refused())).toEqual(
        expect.arrayContaining([expect.stringContaining(ONE), expect.stringContaining(TWO)]),
      );
    });
  });
});

/** Waits until the importer without pods of its own meets so many pods of an exporter, and no others. */
async function untilMet(exporter: string, pods: number): Promise<void> {
  await world.checker.untilFlows((last, from) => {
    const met = new Set(last.filter((it) => it.to?.cluster === exporter).map((it) => it.to?.address));
    return from !== IMPORTER || met.size === pods;
  }, 60);
}
