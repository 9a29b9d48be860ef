import { expect, it } from "vitest";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { CLUSTER_UPGRADES } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { UpdateMember } from "#updates/clusters/fleet.ts";
import { CAPI_CLUSTERS } from "#updates/engines/cluster-api.ts";
import { Upgraders } from "./upgraders.ts";

const signal = new AbortController().signal;
const MEMBER: UpdateMember = {
  name: "a",
  labels: {},
  group: undefined,
  region: undefined,
  hasLongTermSupport: false,
  upgrader: "ClusterAPI:clusters/a",
  schedules: { kubernetes: undefined, nodeOS: undefined },
  programs: [],
  nodeAgents: undefined,
  profile: undefined,
};
const OPERATION = { id: "one", target: { type: "Full" as const, kubernetesVersion: "1.36.0" } };

it("an operation that an engine refuses has failed until its run is over, and nothing of it is kept then", async () => {
  const client = new FakeKubeClient();
  client.seed(CAPI_CLUSTERS, { metadata: { namespace: "clusters", name: "a" }, spec: {} });
  const deps = systemDeps(silentLogger);
  const clusterUpgrades = createInformer(client, CLUSTER_UPGRADES, { fieldManager: "test" }, deps);
  const upgraders = new Upgraders({ client, deps }, { clusterUpgrades });
  const stateOf = async () => {
    const observed = await upgraders.observe(MEMBER, { operation: OPERATION }, signal);
    return observed !== undefined && "operation" in observed ? observed.operation?.state : undefined;
  };
  expect(await upgraders.start(MEMBER, OPERATION, signal)).toBe(0);
  expect(await stateOf()).toBe("Failed");
  upgraders.forget(MEMBER.name);
  expect(await stateOf()).toBeUndefined();
});
