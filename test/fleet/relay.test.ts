import { afterAll, beforeAll, expect, it } from "vitest";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { type Gateway, GATEWAYS, RELAYS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { RELAY_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import type { RelayGateway } from "@fairlead/fleet/relay/gateway-keys.ts";
import { createHubRelay } from "@fairlead/fleet/relay/hub-gateways.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { configAs } from "../support/access.ts";
import {
  connectProgram,
  ensureNamespace,
  startCluster,
  testDeps,
  type TestCluster,
} from "../support/fleet.ts";
import { eventuallyOne } from "../support/waiting.ts";

const signal = new AbortController().signal;
const KEY = Buffer.alloc(32, "k").toString("base64");
const SPEC = { addresses: ["203.0.113.9", "2001:db8::9"], basePort: 21_000, publicKey: KEY };
const VIEW = "fleet-view-site";
const MAILBOX = "fleet-member-a";
const OWN = objectKey(FLEET_SYSTEM_NAMESPACE, "relay-1");

let hub: TestCluster;
let relay: Controller;
let gateways: readonly RelayGateway[] = [];

function gateway(name: string, index: number | undefined, namespace = VIEW): Gateway {
  const keys = [{ epoch: 1, publicKey: KEY }];
  const spec = { cluster: name, ordinal: 0, node: "n", keys, ...(index === undefined ? {} : { index }) };
  return { metadata: { namespace, name }, spec };
}

beforeAll(async () => {
  hub = await startCluster("hub", [RELAY_ACCESS]);
  await installCrds(hub.client, { crds: HUB_CRDS, fieldManager: "test" }, testDeps("test"), signal);
  for (const name of [FLEET_SYSTEM_NAMESPACE, VIEW, MAILBOX]) await ensureNamespace(hub.client, name);
  await hub.client.create(GATEWAYS, gateway("a-0", 0));
  await hub.client.create(GATEWAYS, gateway("b-0", undefined));
  // A member may claim anything in its mailbox.
  await hub.client.create(GATEWAYS, gateway("a-1", 1, MAILBOX));
  const deps = testDeps("relay");
  const client = connectProgram(configAs(RELAY_ACCESS, hub.config), deps);
  const setGateways = async (all: Iterable<RelayGateway>): Promise<void> => void (gateways = [...all]);
  relay = createHubRelay({ client, name: "relay-1", spec: SPEC, setGateways }, deps);
  await relay.start(signal);
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  const refused = hub.asked.refused();
  await hub[Symbol.asyncDispose]();
  expect(refused).toEqual([]);
});

it("a relay publishes its addresses, ports and key on the hub, and restores them", async () => {
  const { spec } = await eventuallyOne(hub.client, RELAYS, OWN);
  expect(spec).toEqual(SPEC);
  await hub.client.mergePatch(RELAYS, OWN, { spec: { basePort: 1 } });
  await eventuallyOne(hub.client, RELAYS, OWN, (it) => it.spec.basePort === SPEC.basePort);
  await hub.client.delete(RELAYS, OWN);
  await eventuallyOne(hub.client, RELAYS, OWN);
});

it("a relay writes nothing when nothing has changed", async () => {
  const { metadata } = await eventuallyOne(hub.client, RELAYS, OWN);
  relay.enqueue(OWN);
  await relay.idle(signal);
  expect((await hub.client.get(RELAYS, OWN)).metadata.resourceVersion).toBe(metadata.resourceVersion);
});

it("a relay serves the gateways that the hub has given an index", async () => {
  await expect.poll(() => gateways.map((it) => it.name), { timeout: 20_000 }).toEqual(["a-0"]);
  await hub.client.mergePatch(GATEWAYS, objectKey(VIEW, "b-0"), { spec: { index: 1 } });
  await expect
    .poll(() => gateways.map((it) => it.name).toSorted(), { timeout: 20_000 })
    .toEqual(["a-0", "b-0"]);
  await hub.client.delete(GATEWAYS, objectKey(VIEW, "a-0"));
  await expect
    .poll(() => gateways, { timeout: 20_000 })
    .toEqual([{ name: "b-0", index: 1, keys: [{ epoch: 1, publicKey: KEY }] }]);
});
