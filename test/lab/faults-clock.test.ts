/** Flows that continue while the clocks of a fleet are wrong, each by a different part of a day. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { eventually } from "../support/waiting.ts";
import { EXPORTERS, type FaultyLab, IMPORTER, startFaultyLab } from "./faulty-lab.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { restarted, restartWith } from "./odd-programs.ts";

const [ONE, TWO] = EXPORTERS;
const DAY = 86_400;
/** By program: no cluster agrees with itself, nor with any other. Unit: seconds. */
const SKEWS = new Map([
  ["hub/apiserver", -DAY],
  ["hub/hub", DAY],
  [`${ONE}/apiserver`, DAY / 2],
  [`${ONE}/member`, -DAY],
  [`${TWO}/apiserver`, -DAY / 2],
  [`${TWO}/member`, DAY / 4],
  [`${IMPORTER}/apiserver`, DAY],
  [`${IMPORTER}/member`, -DAY / 4],
]);
let world: FaultyLab;

const certificateOf = async (member: string): Promise<string | undefined> =>
  (await (await world.lab.client(member)).get(SECRETS, objectKey("fleet-system", HUB_SECRET))).data?.[
    "tls.crt"
  ];

/** The hub sees every member renew its lease, whatever the clocks show, and no member joins again. */
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
    ["differently", 1],
    ["the other way round", -1],
  ])("drops nothing, and passes changes on, while every clock is wrong, %s", async (_, sign) => {
    await world.suffer(async () => {
      const certificate = await certificateOf(ONE);
      await Promise.all(
        [...SKEWS].map(([program, offset]) =>
          restartWith(world.lab, program, [`--clock-offset=${sign * offset}`]),
        ),
      );
      await world.scale(ONE, 3);
      await world.checker.untilAnsweredBy(EXPORTERS);
      await untilAllHealthy();
      await restarted(world.lab, ...SKEWS.keys());
      await untilAllHealthy();
      // The certificate is valid for 30 days, so one day does not renew it.
      expect(await certificateOf(ONE)).toBe(certificate);
    });
  });
});
