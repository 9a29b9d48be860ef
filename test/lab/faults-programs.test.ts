/** Flows that continue while programs of a fleet die, hang or lose their state, and users delete what the programs created. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { type Pod, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { ENDPOINT_SLICE_IMPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { eventually, until } from "../support/waiting.ts";
import { die, forgetPast, freeze, revive } from "./fault-tools.ts";
import { EXPORTERS, type FaultyLab, HELLO, IMPORTER, MEMBERS, startFaultyLab } from "./faulty-lab.ts";
import { found } from "../support/lab-fixture.ts";
import { shellPod } from "../support/lab-manifests.ts";
import { isFull, sampleOf } from "../support/sample.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const [ONE, TWO] = EXPORTERS;
let world: FaultyLab;

/** Waits until the view has this number of endpoints of a cluster. */
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

/** Addresses of the derived Service. */
async function addressesOf(member: string): Promise<readonly string[]> {
  const imported = await (
    await world.lab.client(member)
  ).get(MCS_SERVICE_IMPORTS, objectKey(HELLO.namespace, HELLO.name));
  return found(imported.spec?.ips);
}

/** Deletes objects as a person may, and waits until flows go to all clusters again. */
async function rob(member: string, of: Resource, labelSelector: string): Promise<void> {
  const client = await world.lab.client(member);
  const { items } = await client.list(of, { namespace: HELLO.namespace, labelSelector });
  expect(items).not.toEqual([]);
  const end = world.checker.mark("robbed", member);
  await Promise.all(items.map((it) => client.delete(of, keyOf(it))));
  end();
  await world.checker.untilAnsweredBy(EXPORTERS);
}

async function leaveAndReturn(member: string, between: () => Promise<void>): Promise<void> {
  const client = await world.lab.client(member);
  await client.delete(MCS_SERVICE_EXPORTS, objectKey(HELLO.namespace, HELLO.name));
  await between();
  await client.create(MCS_SERVICE_EXPORTS, { metadata: HELLO });
  await world.checker.untilAnsweredBy(EXPORTERS);
}

/** What the name of the service stands for, over and over again. */
const LOOK_UPS = `while :; do echo "is $(dig +short +tries=1 +timeout=2 ${HELLO.name}.${HELLO.namespace}.svc.clusterset.local A)"; sleep 0.03; done`;

/** Whether the API server has forgotten the past that watches resume from. */
const RESTARTS = [
  ["with its watch cache", false],
  ["without its watch cache", true],
] as const;

describeOnKernel("a fleet whose programs die, and whose objects are deleted", () => {
  beforeAll(async () => {
    world = await startFaultyLab("efprog");
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it.runIf(isFull)("drops nothing that serves while the hub is dead for longer than all leases", async () => {
    await world.suffer(async (beganMs) => {
      await die(world.lab, "hub/apiserver", "hub/hub");
      const unseen = MEMBERS.map((it) => world.checker.mark("unheard", it));
      await world.scale(ONE, 3);
      await world.untilTime(beganMs, 2.5 * world.leaseMs);
      await world.checker.untilAnsweredBy(EXPORTERS);
      await revive(world.lab);
      for (const end of unseen) end();
      await untilInView(ONE, 3);
    });
  });

  it("sends no requests to pods that are gone where an importer's manager begins while the hub is dead", async () => {
    await world.suffer(async () => {
      await die(world.lab, "hub/apiserver", "hub/hub", `${IMPORTER}/member`);
      const unheard = MEMBERS.map((it) => world.checker.mark("unheard", it));
      const managed = world.checker.mark("unmanaged", IMPORTER);
      await world.scale(ONE, 1);
      // A pod that terminates serves for a while yet.
      const isHello = ({ metadata }: Pod): boolean => metadata.labels?.["app"] === HELLO.name;
      await eventually(await world.lab.client(ONE), PODS, (pods) => pods.filter(isHello).length === 1);
      await revive(world.lab, `${IMPORTER}/member`);
      managed();
      await world.checker.untilAnsweredBy(EXPORTERS);
      await revive(world.lab);
      for (const end of unheard) end();
      await untilInView(ONE, 1);
    });
  });

  it.runIf(isFull)(
    "keeps imports while an importer's manager is dead, and catches up with all changes",
    async () => {
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
    },
  );

  it.each(sampleOf(RESTARTS, [1]))(
    "applies withdrawals that occurred while the hub's API server restarted %s",
    async (_, isForgetful) => {
      await world.suffer(async () => {
        // A suspended program keeps the version that it saw last, and resumes its watch from there.
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
    },
  );

  it.each(sampleOf(RESTARTS, []))(
    "applies withdrawals that occurred while a member's API server restarted %s",
    async (_, isForgetful) => {
      await world.suffer(async () => {
        const end = world.checker.mark("unmanaged", ONE);
        {
          using _still = freeze(world.lab, `${ONE}/member`);
          await world.scale(ONE, 1);
          await die(world.lab, `${ONE}/apiserver`);
          if (isForgetful) forgetPast(world.lab, ONE);
          await revive(world.lab);
        }
        // Its manager has heard of its own API server once it told the hub.
        await untilInView(ONE, 1);
        end();
      });
    },
  );

  it("fails for at most half a second if a user deletes an importer's objects, and keeps its address", async () => {
    await world.suffer(async () => {
      const addresses = await addressesOf(IMPORTER);
      for (const member of [IMPORTER, ONE]) {
        await rob(member, SERVICES, `${MANAGED_BY_LABEL}=${MANAGED_BY}`);
        await rob(member, ENDPOINT_SLICES, `${MCS_SERVICE_NAME_LABEL}=${HELLO.name}`);
      }
      await rob(IMPORTER, MCS_SERVICE_IMPORTS, `${MANAGED_BY_LABEL}=${MANAGED_BY}`);
      expect(await addressesOf(IMPORTER)).toEqual(addresses);
    });
  });

  it("has a name that answers all the time while exporters leave and return at once", async () => {
    await world.suffer(async () => {
      const [address] = await addressesOf(IMPORTER);
      const names = { namespace: HELLO.namespace, name: "names" };
      await world.lab.apply(IMPORTER, shellPod(names, LOOK_UPS));
      // All that it printed: a line that is empty is an answer, too.
      const answers = async (): Promise<readonly string[]> =>
        (await world.lab.logOf(IMPORTER, names)).split("\n").slice(0, -1);
      await until("answers of the name", answers, (it) => it.length > 0);
      for (const member of EXPORTERS) {
        await leaveAndReturn(member, () => Promise.resolve());
        await leaveAndReturn(member, () => untilInView(member, 0));
      }
      expect(new Set(await answers())).toEqual(new Set([`is ${address}`]));
      await (await world.lab.client(IMPORTER)).delete(PODS, objectKey(names.namespace, names.name));
    });
  });
});
