/** A parallel network whose hub is gone for an hour. */

import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { ADDRESS_BLOCKS, GATEWAYS, MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { deploy, ensureNamespace, exportBy, sliceOf, startFleet, type TestFleet } from "../support/fleet.ts";
import {
  addNode,
  attachPods,
  createProfile,
  newPublicKey,
  setProfile,
  showGateway,
} from "../support/mesh.ts";
import { SteppedClock } from "../support/stepped-clock.ts";
import { eventuallyOne } from "../support/waiting.ts";

const HOUR_MS = 3_600_000;
const STEPS = 12;
/** Time between two steps, in which what came due happens. Unit: milliseconds. */
const REST_MS = 100;
const MEMBERS = ["a", "b"] as const;
/** What nodes of a member work by, and what its pods use. */
const KINDS: readonly Resource[] = [
  MESH_NETWORKS,
  ADDRESS_BLOCKS,
  GATEWAYS,
  MCS_SERVICE_IMPORTS,
  SERVICES,
  ENDPOINT_SLICES,
];

const clocks = { a: new SteppedClock(), b: new SteppedClock() };
let fleet: TestFleet;

beforeAll(async () => {
  fleet = await startFleet({ members: MEMBERS, clocks });
  await createProfile(fleet.client("hub"), "p");
  for (const [at, name] of MEMBERS.entries()) {
    const client = fleet.client(name);
    await ensureNamespace(client, "work");
    await addNode(client, "n1", { address: `192.168.7.${at + 1}`, podCIDR: "10.1.0.0/16" });
    await setProfile(fleet.client("hub"), name, "p");
    await showGateway(client, `${name}-0`, {
      keys: [{ epoch: 1, publicKey: newPublicKey() }],
      basePort: 31_820,
    });
  }
});
afterAll(() => fleet[Symbol.asyncDispose]());

/** Versions of all objects of these kinds. */
async function versions(name: string): Promise<readonly string[]> {
  const lists = await Promise.all(KINDS.map(async (kind) => (await fleet.client(name).list(kind)).items));
  return lists
    .flat()
    .map(({ metadata }) => `${metadata.namespace}/${metadata.name} ${metadata.resourceVersion}`);
}

/** Once nothing is written any more. */
async function settled(): Promise<readonly (readonly string[])[]> {
  for (let before: readonly (readonly string[])[] = []; ;) {
    const now = await Promise.all(MEMBERS.map(versions));
    if (isDeepStrictEqual(before, now)) return now;
    before = now;
    await delay(systemClock, 3 * REST_MS, new AbortController().signal);
  }
}

it("loses nothing while its hub is gone for an hour: members write none of what their nodes and pods use", async () => {
  const block = await attachPods(fleet.client("a"), "n1", ["pod-1"]);
  await deploy(fleet.client("a"), { addresses: ["10.1.0.9"] });
  const { endpoints } = sliceOf({ addresses: ["10.1.0.9"] });
  await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
    endpoints: endpoints.map((it) => ({ ...it, targetRef: { kind: "Pod", name: "pod-1", uid: "pod-1" } })),
  });
  await exportBy("mcs", fleet.client("a"));
  const wanted = block.status?.allocations?.[0]?.ipv4;
  await eventuallyOne(fleet.client("b"), GATEWAYS, objectKey(FLEET_SYSTEM_NAMESPACE, "a-0"));
  await eventuallyOne(
    fleet.client("b"),
    MCS_SERVICE_IMPORTS,
    objectKey("work", "hello"),
    (it) => (it.spec?.ips?.length ?? 0) > 0,
  );
  const imported = async (): Promise<readonly string[]> =>
    (await fleet.client("b").list(ENDPOINT_SLICES)).items.flatMap((it) =>
      it.endpoints.flatMap(({ addresses }) => addresses),
    );
  await expect.poll(imported).toContain(wanted);
  await fleet.hubProgram.stop();
  await fleet.hub[Symbol.asyncDispose]();
  const before = await settled();
  for (let step = 0; step < STEPS; step += 1) {
    for (const name of MEMBERS) clocks[name].skip(HOUR_MS / STEPS);
    await delay(systemClock, REST_MS, new AbortController().signal);
  }
  expect(await Promise.all(MEMBERS.map(versions))).toEqual(before);
  expect(await imported()).toContain(wanted);
});
