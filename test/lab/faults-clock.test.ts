/** Flows that go on while clocks of a fleet are wrong by a day. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SECRETS } from "#api/core/v1/types.ts";
import { HUB_SECRET } from "#api/fairlead.dev/names.ts";
import { objectKey } from "#api/meta/key.ts";
import { eventually } from "../fleet/fleet.ts";
import { EXPORTERS, type FaultyLab, IMPORTER, startFaultyLab } from "./faulty-lab.ts";
import { describeOnKernel } from "./netns-fixture.ts";
import { restarted, restartWith } from "./odd-programs.ts";

const [ONE] = EXPORTERS;
const DAY = 86_400;
let world: FaultyLab;

const certificateOf = async (member: string): Promise<string | undefined> =>
  (await (await world.lab.client(member)).get(SECRETS, objectKey("fleet-system", HUB_SECRET))).data?.[
    "tls.crt"
  ];

/** Nobody is late for the hub, whatever the clocks say, and nobody joins anew. */
async function untilAllHealthy(): Promise<void> {
  await eventually(await world.lab.client("hub"), MEMBER_CLUSTERS, (all) =>
    all.every((it) =>
      ["Joined", "Healthy"].every(
        (type) => it.status?.conditions?.find((one) => one.type === type)?.status === "True",
      ),
    ),
  );
}

describeOnKernel("a fleet whose clocks are wrong", () => {
  beforeAll(async () => {
    world = await startFaultyLab("efclock");
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it.each([
    ["the hub's manager is a day ahead and an exporter's a day behind", "hub/hub", `${ONE}/member`],
    [
      "the hub's API server is a day ahead and an importer's a day behind",
      "hub/apiserver",
      `${IMPORTER}/apiserver`,
    ],
  ])("drops nothing, and passes changes on, while %s", async (_, ahead, behind) => {
    await world.suffer(async () => {
      const certificate = await certificateOf(ONE);
      await restartWith(world.lab, ahead, [`--clock-offset=${DAY}`]);
      await restartWith(world.lab, behind, [`--clock-offset=${-DAY}`]);
      await world.scale(ONE, 3);
      await world.checker.untilAnsweredBy(EXPORTERS);
      await untilAllHealthy();
      await restarted(world.lab, ahead, behind);
      await untilAllHealthy();
      // Thirty days are not over after one: nothing was asked for anew.
      expect(await certificateOf(ONE)).toBe(certificate);
    });
  });
});
