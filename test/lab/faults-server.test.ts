/** Flows that continue while API servers are slow or answer 429 (too many requests). */

import { afterAll, beforeAll, expect, it } from "vitest";
import { crowd } from "./crowd.ts";
import { slowDown } from "./fault-tools.ts";
import { EXPORTERS, type FaultyLab, IMPORTER, startFaultyLab } from "./faulty-lab.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const [ONE, TWO] = EXPORTERS;
let world: FaultyLab;

describeOnKernel("a fleet whose API servers are overloaded", () => {
  beforeAll(async () => {
    world = await startFaultyLab("efserver");
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it("keeps endpoints, and propagates changes, while the hub takes two seconds for each response", async () => {
    await world.suffer(async () => {
      using _slow = slowDown(world.lab, "hub/apiserver");
      await change();
    });
  });

  it("keeps endpoints, and propagates changes, while an importer's API server takes two seconds for each response", async () => {
    await world.suffer(async () => {
      // No program there learns of a withdrawal, or can act on it, before its API server delivers it.
      const end = world.checker.mark("unmanaged", IMPORTER);
      {
        using _slow = slowDown(world.lab, `${IMPORTER}/apiserver`);
        await change();
      }
      end();
    });
  });

  it("keeps endpoints, and propagates changes, while the hub rejects half of all writes", async () => {
    await world.suffer(async () => {
      await using crowded = await crowd(world.lab, "hub");
      await change();
      expect(Object.keys(crowded.refused())).toEqual(
        expect.arrayContaining([expect.stringContaining(ONE), expect.stringContaining(TWO)]),
      );
    });
  });
});

/** One exporter gets more pods, and the other loses one, until the importer without pods has both changes. */
async function change(): Promise<void> {
  await Promise.all([world.scale(ONE, 3), world.scale(TWO, 1)]);
  await world.checker.untilFlows((last, from) => {
    const met = (exporter: string): number =>
      new Set(last.filter((it) => it.to?.cluster === exporter).map((it) => it.to?.address)).size;
    return from !== IMPORTER || (met(ONE) === 3 && met(TWO) === 1);
  }, 60);
}
