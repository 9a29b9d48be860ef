/** Members that are upgraded by Cluster API in another cluster than the hub, which the hub reaches by a kubeconfig. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { renderKubeconfig } from "@fairlead/base/pki/kubeconfig.ts";
import { CLUSTER_UPGRADES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { MANAGEMENT_CLUSTERS_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { HUB_ACCESS, HUB_CLUSTER_API_ACCESS, type ProgramAccess } from "@fairlead/fleet/authz/programs.ts";
import { Upgraders } from "@fairlead/fleet/hub/updates/clusters/upgraders.ts";
import { updateMember } from "@fairlead/fleet/updates/clusters/fleet.ts";
import { CAPI_CLUSTERS } from "@fairlead/fleet/updates/engines/cluster-api.ts";
import {
  CLUSTER_NAME_LABEL,
  CONTROL_PLANE_LABEL,
  MACHINES,
} from "@fairlead/fleet/updates/engines/cluster-api-machines.ts";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { configAs } from "../support/access.ts";
import {
  connectProgram,
  ensureNamespace,
  startCluster,
  type TestCluster,
  testDeps,
} from "../support/fleet.ts";

/** The account in the management cluster: the rights that the docs name. */
const UPGRADER: ProgramAccess = { name: "upgrader", cluster: HUB_CLUSTER_API_ACCESS.cluster, system: [] };
const NAMESPACE = "clusters";
const signal = AbortSignal.timeout(60_000);
const stack = new AsyncDisposableStack();
let hub: TestCluster;
let management: TestCluster;
let upgraders: Upgraders;

beforeAll(async () => {
  hub = stack.use(await startCluster("hub", [HUB_ACCESS, HUB_CLUSTER_API_ACCESS]));
  management = stack.use(await startCluster("management", [UPGRADER]));
  const schema = {
    openAPIV3Schema: { type: "object" as const, "x-kubernetes-preserve-unknown-fields": true },
  };
  const crds = [CAPI_CLUSTERS, MACHINES].map(({ group, version, kind, plural }) => ({
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      scope: "Namespaced" as const,
      versions: [{ name: version, served: true, storage: true, schema }],
    },
  }));
  const { client } = management;
  await installCrds(client, { crds, fieldManager: "test" }, testDeps("test"), signal);
  await ensureNamespace(client, NAMESPACE);
  await ensureNamespace(hub.client, FLEET_SYSTEM_NAMESPACE);
  await client.create(CAPI_CLUSTERS, {
    metadata: { namespace: NAMESPACE, name: "a" },
    spec: { topology: { version: "v1.33.4" } },
  });
  const labels = { [CLUSTER_NAME_LABEL]: "a", [CONTROL_PLANE_LABEL]: "" };
  await client.create(MACHINES, {
    metadata: { namespace: NAMESPACE, name: "server", labels },
    spec: { clusterName: "a", version: "v1.33.4" },
  });
  const deps = testDeps("hub");
  const program = stack.use(connectProgram(configAs(HUB_ACCESS, hub.config), deps));
  const clusterUpgrades = stack.use(createInformer(program, CLUSTER_UPGRADES, {}, deps));
  upgraders = new Upgraders({ client: program, deps }, { clusterUpgrades });
});
afterAll(() => stack.disposeAsync());

const memberBy = (engine: string) =>
  updateMember(
    {
      metadata: { name: "a", annotations: { "fairlead.dev/upgrader": engine } },
      spec: { identity: { kind: "User", name: "a" } },
    },
    undefined,
  );

async function store(key: string, kubeconfig: string): Promise<void> {
  await hub.client.apply(
    SECRETS,
    {
      metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: MANAGEMENT_CLUSTERS_SECRET },
      data: { [key]: Buffer.from(kubeconfig).toString("base64") },
    },
    { fieldManager: key },
  );
}

it("is upgraded there, with the rights that a hub has where it is the management cluster", async () => {
  const { server, ca = "" } = management.config;
  const { token = "" } = await configAs(UPGRADER, management.config).credentials.current();
  await store("eu", renderKubeconfig({ server, ca, token }));
  const member = memberBy(`ClusterAPI:${NAMESPACE}/a@eu`);
  const operation = { id: "one", target: { type: "Full", kubernetesVersion: "1.34.1" } } as const;
  expect(await upgraders.observe(member, { operation }, signal)).toMatchObject({
    kubernetesVersion: "1.33.4",
  });
  await upgraders.start(member, operation, signal);
  const key = objectKey(NAMESPACE, "a");
  const { spec } = await management.client.get(CAPI_CLUSTERS, key);
  expect(spec?.topology?.version).toBe("v1.34.1");
  expect(await upgraders.observe(member, { operation }, signal)).toMatchObject({
    operation: { id: "one", state: "Running" },
  });
  expect(management.asked.refused()).toEqual([]);
});

it.each([
  ["us", 'Secret fleet-system/fairlead-management-clusters has no key "us"'],
  ["constructor", 'Secret fleet-system/fairlead-management-clusters has no key "constructor"'],
  [
    "file",
    "kubeconfig file in Secret fleet-system/fairlead-management-clusters: users[0].user.tokenFile names a file",
  ],
])("is not observed by the kubeconfig %j, with the reason", async (key, problem) => {
  const kubeconfig = {
    "current-context": "x",
    contexts: [{ name: "x", context: { cluster: "x", user: "x" } }],
    clusters: [{ name: "x", cluster: { server: "https://127.0.0.1:1" } }],
    users: [{ name: "x", user: { tokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token" } }],
  };
  await store("file", JSON.stringify(kubeconfig));
  expect(await problemOf(`ClusterAPI:${NAMESPACE}/a@${key}`)).toContain(problem);
});

it("is refused with the forms that there are, where the annotation names no Cluster", async () => {
  expect(await problemOf("ClusterAPI:a")).toContain(
    '"ClusterAPI:a" names no Cluster; use ClusterAPI:NAMESPACE/NAME',
  );
});

async function problemOf(engine: string): Promise<unknown> {
  const observed = await upgraders.observe(memberBy(engine), {}, signal);
  return observed !== undefined && "problem" in observed ? observed.problem : observed;
}
