/** A join that a cluster stops in the middle of a step: by a policy, a quota, a webhook, as any cluster may have. */

import { afterAll, beforeAll, expect, it } from "vitest";
import {
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { CERTIFICATE_SIGNING_REQUESTS } from "@fairlead/kube/api/certificates/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { POD_DISRUPTION_BUDGETS } from "@fairlead/kube/api/policy/v1/types.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  CLUSTER_ROLES,
  ROLE_BINDINGS,
  ROLES,
} from "@fairlead/kube/api/rbac/v1/types.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { sampleOf } from "../support/sample.ts";
import { eventually } from "../support/waiting.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], join: [] });
  await fleet.agents.get("a")!.stop();
  await fleet
    .client("a")
    .create(SERVICE_ACCOUNTS, { metadata: { namespace: "fleet-system", name: "default" } });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const COMMON: readonly Resource[] = [
  NAMESPACES,
  SERVICE_ACCOUNTS,
  SECRETS,
  SERVICES,
  CLUSTER_ROLES,
  CLUSTER_ROLE_BINDINGS,
  ROLES,
  ROLE_BINDINGS,
];
const KINDS: Readonly<Record<string, readonly Resource[]>> = {
  hub: [...COMMON, MEMBER_CLUSTERS, CERTIFICATE_SIGNING_REQUESTS],
  a: [...COMMON, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS],
};

/** Everything that a join may leave behind; kinds and policies stay on purpose, and the hub's view is its own. */
async function objectsOf(cluster: string): Promise<readonly string[]> {
  const lists = await Promise.all(
    (KINDS[cluster] ?? []).map(async (of) => {
      // The first join installs the hub's CRDs.
      const { items } = await fleet
        .client(cluster)
        .list(of)
        .catch(() => ({ items: [] }));
      return items.map((it) => `${of.kind} ${it.metadata.namespace ?? ""}/${it.metadata.name}`);
    }),
  );
  return lists.flat().filter((it) => !it.includes("fleet-view-"));
}

/** Rejects objects of a kind that administrators create; programs are not affected. */
async function refuse(cluster: string, of: Resource): Promise<AsyncDisposable> {
  const client = fleet.client(cluster);
  const name = "refused-by-test";
  await client.create(VALIDATING_ADMISSION_POLICIES, {
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: [of.group],
            apiVersions: ["*"],
            operations: ["CREATE"],
            resources: [of.plural],
          },
        ],
      },
      matchConditions: [{ name: "admins", expression: 'request.userInfo.username == "kubernetes-admin"' }],
      validations: [{ expression: "false", message: "not today" }],
    },
  });
  await client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, {
    metadata: { name },
    spec: { policyName: name, validationActions: ["Deny"] },
  });
  return {
    async [Symbol.asyncDispose]() {
      for (const it of [VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICIES])
        await client.delete<{ metadata: { name: string } }>(it, objectKey(undefined, name));
    },
  };
}

it.each(
  sampleOf(
    [
      ["hub", CLUSTER_ROLES],
      ["hub", CLUSTER_ROLE_BINDINGS],
      ["hub", CERTIFICATE_SIGNING_REQUESTS],
      ["hub", MEMBER_CLUSTERS],
      ["hub", SERVICE_ACCOUNTS],
      ["a", PODS],
      ["a", SECRETS],
      ["a", CLUSTER_ROLE_BINDINGS],
      ["a", SERVICE_ACCOUNTS],
      ["a", SERVICES],
      ["a", POD_DISRUPTION_BUDGETS],
      ["a", DEPLOYMENTS],
    ] as const,
    [1, 5, 11],
  ).map(([cluster, of]) => [cluster, of.plural, of] as const),
)("leaves both clusters as they were when %s takes no %s", async (cluster, _, of) => {
  const before = { hub: await objectsOf("hub"), a: await objectsOf("a") };
  await using _policy = await refuse(cluster, of);
  const said: string[] = [];
  const failing = joinCluster(
    {
      name: "a",
      hub: fleet.hub.config,
      member: fleet.members.get("a")!.config,
      install: { image: "fairlead:test", imagePullPolicy: "Never", replicas: 2, dns: true },
      ...(of === PODS ? {} : { skipChecks: new Set(["reachability"] as const) }),
      timeoutMs: PATIENCE_MS,
    },
    { ...testDeps("join"), progress: ({ step, status }) => said.push(`${status} ${step}`) },
    AbortSignal.timeout(PATIENCE_MS),
  );
  await expect(failing).rejects.toThrow("not today");
  expect(said.at(-1)).toBe("undone roll back");
  // The mailbox is deleted asynchronously, and the member after it.
  const isMailbox = (name: string): boolean => name.startsWith("fleet-member-");
  const hub = fleet.client("hub");
  await eventually(hub, MEMBER_CLUSTERS, (all) => all.length === 0);
  await eventually(hub, NAMESPACES, (all) => !all.some((it) => isMailbox(it.metadata.name)));
  expect({ hub: await objectsOf("hub"), a: await objectsOf("a") }).toEqual(before);
});
