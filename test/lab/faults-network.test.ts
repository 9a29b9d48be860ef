/** Flows that continue while packets between clusters are silently dropped. */

import { afterAll, beforeAll, it } from "vitest";
import { type Cut, cut, die, heal, revive } from "./fault-tools.ts";
import { EXPORTERS, type FaultyLab, IMPORTER, MEMBERS, startFaultyLab } from "./faulty-lab.ts";
import { isFull, sampleOf } from "../support/sample.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const [ONE, TWO] = EXPORTERS;
let world: FaultyLab;

describeOnKernel("a fleet whose network breaks", () => {
  beforeAll(async () => {
    world = await startFaultyLab("efnet");
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const BETWEEN: readonly (readonly [string, readonly Cut[]])[] = [
    [
      "both ways",
      [
        { from: IMPORTER, to: "hub" },
        { from: "hub", to: IMPORTER },
      ],
    ],
    ["from the member to the hub", [{ from: IMPORTER, to: "hub" }]],
    ["from the hub to the member", [{ from: "hub", to: IMPORTER }]],
  ];

  it.each(sampleOf(BETWEEN, [0]))(
    "drops what went, and nothing else, where an importer is cut off %s",
    async (_, cuts) => {
      await world.suffer(async (beganMs) => {
        await cut(world.lab, ...cuts);
        const received = world.checker.mark("unheard", IMPORTER);
        await world.scale(ONE, 1);
        await world.scale(TWO, 3);
        await world.untilTime(beganMs, world.checker.deadMs + 3000);
        await world.checker.untilAnsweredBy(EXPORTERS);
        await heal(world.lab);
        received();
        await world.checker.untilAnsweredBy(EXPORTERS);
      });
    },
  );

  it("avoids a cluster whose packets are all dropped and which still serves itself, and then uses it again", async () => {
    await world.suffer(async (beganMs) => {
      const ends = [world.checker.mark("unreachable", ONE), world.checker.mark("unheard", ONE)];
      await cut(world.lab, { around: ONE });
      await world.untilTime(beganMs, world.checker.deadMs);
      await world.checker.untilFlows((last, from) =>
        last.every((it) => it.to?.cluster === (from === ONE ? ONE : TWO)),
      );
      await heal(world.lab);
      for (const end of ends) end();
    });
  });

  it.runIf(isFull)(
    "leaves a cluster that dies together with the hub, and does not come back to it when the hub does",
    async () => {
      await world.suffer(async (beganMs) => {
        await die(world.lab, "hub/apiserver", "hub/hub");
        const unseen = MEMBERS.map((it) => world.checker.mark("unheard", it));
        const unreachable = world.checker.mark("unreachable", ONE);
        await cut(world.lab, { around: ONE });
        await world.untilTime(beganMs, world.checker.deadMs);
        const aside = (): Promise<void> =>
          world.checker.untilFlows((last, from) =>
            last.every((it) => it.to?.cluster === (from === ONE ? ONE : TWO)),
          );
        await aside();
        await revive(world.lab);
        for (const end of unseen) end();
        await world.untilTime(beganMs, world.checker.deadMs + 3 * world.leaseMs);
        await aside();
        await heal(world.lab);
        unreachable();
      });
    },
  );
});
