/** Flows that go on while the programs of a fleet die, stand still and forget. */

import { afterAll, beforeAll, it } from "vitest";
import { ENDPOINT_SLICE_IMPORTS } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { eventually } from "../fleet/fleet.ts";
import { die, forgetPast, freeze, revive } from "./fault-tools.ts";
import { EXPORTERS, type FaultyLab, HELLO, IMPORTER, MEMBERS, startFaultyLab } from "./faulty-lab.ts";
import { describeOnKernel } from "./netns-fixture.ts";

const [ONE, TWO] = EXPORTERS;
let world: FaultyLab;

/** Waits until the hub tells of so many endpoints of a cluster. */
async function untilInView(cluster: string, count: number): Promise<void> {
  await eventually(await world.lab.client("hub"), ENDPOINT_SLICE_IMPORTS, (slices) => {
    const of = slices.filter(
      ({ spec }) =>
        spec.endpointSliceReference.clusterId === cluster && spec.ownerServiceReference.name === HELLO.name,
    );
    const ready = of
      .filter(({ spec }) => spec.addressType === "IPv4")
      .flatMap(({ spec }) => spec.endpoints.filter((it) => it.conditions?.ready !== false));
    return ready.length === count;
  });
}

describeOnKernel("a fleet whose programs die", () => {
  beforeAll(async () => {
    world = await startFaultyLab("efprog");
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it("drops nothing that serves while the hub is dead for longer than all leases", async () => {
    await world.suffer(async (beganMs) => {
      await die(world.lab, "hub/apiserver", "hub/hub");
      const unheard = MEMBERS.map((it) => world.checker.mark("unheard", it));
      await world.scale(ONE, 3);
      await world.untilTime(beganMs, 2.5 * world.leaseMs);
      await world.checker.untilAnsweredBy(EXPORTERS);
      await revive(world.lab);
      for (const end of unheard) end();
      await untilInView(ONE, 3);
    });
  });

  it("keeps what is there while an importer's manager is dead, and catches up with all it missed", async () => {
    await world.suffer(async (beganMs) => {
      await die(world.lab, `${TWO}/member`);
      const end = world.checker.mark("unmanaged", TWO);
      await world.scale(ONE, 1);
      await world.scale(TWO, 3);
      await untilInView(ONE, 1);
      await world.untilTime(beganMs, 2 * world.leaseMs);
      await world.checker.untilFlows((last) => last.some((it) => it.to?.cluster === TWO));
      await revive(world.lab);
      end();
      await untilInView(TWO, 3);
    });
  });

  it.each([
    ["with its watch cache", false],
    ["without its watch cache", true],
  ])("takes over what was withdrawn while the hub's API server restarted %s", async (_, isForgetful) => {
    await world.suffer(async () => {
      // What stands still keeps the version that it saw last, and asks to go on from there.
      const end = world.checker.mark("unmanaged", IMPORTER);
      {
        using _still = freeze(world.lab, `${IMPORTER}/member`);
        await world.scale(ONE, 1);
        await untilInView(ONE, 1);
        await die(world.lab, "hub/apiserver");
        if (isForgetful) forgetPast(world.lab, "hub");
        await revive(world.lab);
      }
      end();
      await world.checker.untilAnsweredBy(EXPORTERS);
    });
  });

  it.each([
    ["with its watch cache", false],
    ["without its watch cache", true],
  ])("takes over what was withdrawn while a member's API server restarted %s", async (_, isForgetful) => {
    await world.suffer(async () => {
      const end = world.checker.mark("unmanaged", ONE);
      {
        using _still = freeze(world.lab, `${ONE}/member`);
        await world.scale(ONE, 1);
        await die(world.lab, `${ONE}/apiserver`);
        if (isForgetful) forgetPast(world.lab, ONE);
        await revive(world.lab);
      }
      end();
      await untilInView(ONE, 1);
    });
  });
});
