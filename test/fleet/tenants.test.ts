/** Users with rights in one namespace of the hub, by their own tokens: their rights in a member end with that namespace. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import { CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { requestToken } from "@fairlead/kube/client/token-request.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  RESOURCE_ENVELOPES,
  RESOURCE_OVERRIDES,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  RESOURCE_BINDINGS,
  RESOURCE_PLACEMENTS,
  RESOURCE_SNAPSHOTS,
  type ResourceBinding,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type Work, WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const WEBHOOKS = resource<KubeObject>(
  "admissionregistration.k8s.io/v1",
  "MutatingWebhookConfiguration",
  "mutatingwebhookconfigurations",
  "Cluster",
);
const ENVELOPE = { "kubernetes-fleet.io/envelope-configmap": "true" };
const GROUP = "placement.kubernetes-fleet.io";

/** Each is more than a right in one namespace. */
const LOOT = {
  ClusterRoleBinding: (name: string): object => ({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "eve" }],
  }),
  Namespace: (name: string): object => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } }),
  "webhook configuration": (name: string): object => ({
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata: { name },
  }),
  "object of another namespace": (name: string): object => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace: "victim", name },
  }),
} as const;
const WAYS = {
  "a ConfigMap": (client: KubeClient, namespace: string, loot: object) =>
    client.create(CONFIG_MAPS, {
      metadata: { namespace, name: "box", annotations: ENVELOPE },
      data: { loot: JSON.stringify(loot) },
    }),
  "a ResourceEnvelope": (client: KubeClient, namespace: string, loot: object) =>
    client.create(RESOURCE_ENVELOPES, {
      metadata: { namespace, name: "box" },
      data: { loot: loot as KubeObject },
    }),
  "an override that makes an envelope": async (client: KubeClient, namespace: string, loot: object) => {
    await client.create(CONFIG_MAPS, {
      metadata: { namespace, name: "box" },
      data: { loot: JSON.stringify(loot) },
    });
    await client.create(RESOURCE_OVERRIDES, {
      metadata: { namespace, name: "box" },
      spec: {
        resourceSelectors: [{ group: "", version: "v1", kind: "ConfigMap", name: "box" }],
        policy: {
          overrideRules: [
            {
              clusterSelector: { clusterSelectorTerms: [] },
              jsonPatchOverrides: [{ op: "add", path: "/metadata/annotations", value: ENVELOPE }],
            },
          ],
        },
      },
    });
  },
} as const;
const SCOPES = ["ClusterResourcePlacement", "ResourcePlacement"] as const;

const CELLS = SCOPES.flatMap((scope) =>
  Object.entries(WAYS).flatMap(([way, act]) =>
    Object.entries(LOOT).map(([what, make]) => ({ scope, way, what, act, make })),
  ),
).map((it, at) => ({ ...it, namespace: `team-${at}`, loot: `loot-${at}` }));
const BY_HAND = "team-by-hand";

let fleet: TestFleet;
let eve: KubeClient;
const bindings = new Map<string, ResourceBinding>();

/** A tenant: everything that she needs for her namespaces, and nothing else. */
async function tenant(hub: KubeClient, namespaces: readonly string[]): Promise<KubeClient> {
  const account = { namespace: "users", name: "eve" };
  await hub.create(NAMESPACES, { metadata: { name: account.namespace } });
  await hub.create(SERVICE_ACCOUNTS, { metadata: account });
  for (const namespace of namespaces) {
    await hub.create(NAMESPACES, { metadata: { name: namespace } });
    const rules = [
      { apiGroups: [""], resources: ["configmaps"], verbs: ["*"] },
      { apiGroups: [GROUP], resources: ["*"], verbs: ["*"] },
    ];
    await hub.create(ROLES, { metadata: { namespace, name: "tenant" }, rules });
    await hub.create(ROLE_BINDINGS, {
      metadata: { namespace, name: "tenant" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "tenant" },
      subjects: [{ kind: "ServiceAccount", ...account }],
    });
  }
  const token = await requestToken(hub, { ...account, seconds: 3600 }, AbortSignal.timeout(10_000));
  return connect({ ...fleet.hub.config, credentials: fixedCredentials({ token }) }, testDeps("eve"));
}

/** An administrator of the hub places Namespaces as a whole; a ResourcePlacement is the tenant's own. */
function place(hub: KubeClient, scope: (typeof SCOPES)[number], namespace: string): Promise<unknown> {
  const strategy = { rollingUpdate: { unavailablePeriodSeconds: 1 } };
  if (scope === "ResourcePlacement")
    return eve.create(RESOURCE_PLACEMENTS, {
      metadata: { namespace, name: "box" },
      spec: {
        resourceSelectors: [
          { group: "", version: "v1", kind: "ConfigMap", name: "box" },
          { group: GROUP, version: "v1beta1", kind: "ResourceEnvelope", name: "box" },
        ],
        strategy,
      },
    });
  return hub.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name: namespace },
    spec: {
      resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: namespace }],
      strategy,
    },
  });
}

/** Namespace "fine": what is in an envelope of the tenant's, and an override that means the Namespace itself. */
async function ownNamespace(client: KubeClient): Promise<void> {
  const namespace = "fine";
  const binding = (name: string, subject: object): KubeObject =>
    ({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata: { namespace, name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "admin" },
      subjects: [subject],
    }) as KubeObject;
  await client.create(RESOURCE_ENVELOPES, {
    metadata: { namespace, name: "roles" },
    data: {
      own: binding("own", { apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "eve" }),
      agent: binding("agent", {
        apiGroup: "rbac.authorization.k8s.io",
        kind: "User",
        name: "system:serviceaccount:fleet-system:fairlead-member",
      }),
    },
  });
  await client.create(RESOURCE_OVERRIDES, {
    metadata: { namespace, name: "namespace" },
    spec: {
      resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: namespace }],
      policy: {
        overrideRules: [
          {
            clusterSelector: { clusterSelectorTerms: [] },
            jsonPatchOverrides: [
              {
                op: "add",
                path: "/metadata/labels",
                value: { "pod-security.kubernetes.io/enforce": "privileged" },
              },
            ],
          },
        ],
      },
    },
  });
}

const keyOfBinding = ({ metadata }: ResourceBinding): string =>
  metadata.namespace ?? metadata.labels?.["kubernetes-fleet.io/parent-CRP"] ?? "";
const outcomeOf = ({ status }: ResourceBinding): Condition | undefined =>
  status?.conditions?.find(
    (it) => it.status === "False" && (it.type === "WorkSynchronized" || it.type === "Overridden"),
  );

const messagesOf = ({ status }: Work): string[] =>
  (status?.manifestConditions ?? []).flatMap((it) =>
    (it.conditions ?? []).map(({ message }) => message ?? ""),
  );

beforeAll(async () => {
  fleet = await startFleet({ members: ["a"], placement: true, configMapEnvelopes: true });
  const hub = fleet.client("hub");
  eve = await tenant(hub, [...CELLS.map((it) => it.namespace), "fine", BY_HAND]);
  await fleet.client("a").create(NAMESPACES, { metadata: { name: "victim" } });
  for (const { scope, act, make, namespace, loot } of CELLS) {
    await act(eve, namespace, make(loot));
    await place(hub, scope, namespace);
  }
  await WAYS["a ConfigMap"](eve, "fine", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace: "fine", name: "inner" },
  });
  await ownNamespace(eve);
  await place(hub, "ClusterResourcePlacement", "fine");
  const decided = (all: readonly ResourceBinding[], scope: (typeof SCOPES)[number]): boolean => {
    for (const it of all) if (outcomeOf(it) !== undefined) bindings.set(keyOfBinding(it), it);
    return CELLS.filter((it) => it.scope === scope).every((it) => bindings.has(it.namespace));
  };
  await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (all) => decided(all, "ClusterResourcePlacement"));
  await eventually(hub, RESOURCE_BINDINGS, (all) => decided(all, "ResourcePlacement"));
}, 120_000);
afterAll(async () => {
  await eve[Symbol.asyncDispose]();
  await fleet[Symbol.asyncDispose]();
});

describe("a tenant of one namespace of the hub", () => {
  it.each(CELLS)(
    "is refused a $what in $way that a $scope places, with the reason",
    async ({ namespace, loot, way }) => {
      const found = bindings.get(namespace);
      const condition = found === undefined ? undefined : outcomeOf(found);
      expect(condition).toMatchObject(
        way === "an override that makes an envelope"
          ? { type: "Overridden", status: "False", reason: "OverriddenFailed" }
          : { type: "WorkSynchronized", status: "False", reason: "SyncWorkFailed" },
      );
      expect(condition?.message).toMatch(
        way.startsWith("an override") ? /makes ConfigMap/ : /data\["loot"\]: /,
      );
      const member = fleet.client("a");
      for (const kind of [CLUSTER_ROLE_BINDINGS, WEBHOOKS, NAMESPACES])
        expect(await member.find<KubeObject>(kind, objectKey(undefined, loot))).toBeUndefined();
      expect(await member.find(CONFIG_MAPS, objectKey("victim", loot))).toBeUndefined();
    },
  );
  it("places objects of the namespace in a ConfigMap, where the hub opens ConfigMaps", async () => {
    await eventuallyOne(fleet.client("a"), CONFIG_MAPS, objectKey("fine", "inner"), () => true);
  });
  it("gives roles of the namespace to users, and to no account of the cluster or of Fairlead", async () => {
    const member = fleet.client("a");
    await eventuallyOne(member, ROLE_BINDINGS, objectKey("fine", "own"), () => true);
    const works = await eventually(fleet.client("hub"), WORKS, (all) =>
      all.some((it) =>
        messagesOf(it).some((text) =>
          text.includes("gives rights to User system:serviceaccount:fleet-system:"),
        ),
      ),
    );
    expect(works.length).toBeGreaterThan(0);
    expect(await member.find(ROLE_BINDINGS, objectKey("fine", "agent"))).toBeUndefined();
  });
  it("changes no label of the Namespace itself by a ResourceOverride", async () => {
    const found = await eventuallyOne(
      fleet.client("a"),
      NAMESPACES,
      objectKey(undefined, "fine"),
      () => true,
    );
    expect(Object.keys(found.metadata.labels ?? {})).toEqual(["kubernetes.io/metadata.name"]);
  });
  it("places nothing of a wider scope by a snapshot and a binding of her own making", async () => {
    const labels = {
      "kubernetes-fleet.io/parent-CRP": "own",
      "kubernetes-fleet.io/resource-index": "0",
      "kubernetes-fleet.io/is-latest-snapshot": "true",
    };
    await eve.create(RESOURCE_SNAPSHOTS, {
      metadata: {
        namespace: BY_HAND,
        name: "own-0-snapshot",
        labels,
        annotations: {
          "kubernetes-fleet.io/number-of-resource-snapshots": "1",
          "kubernetes-fleet.io/resource-hash": "x",
        },
      },
      spec: { selectedResources: [LOOT.ClusterRoleBinding("loot-by-hand") as KubeObject] },
    });
    await eve.create(RESOURCE_BINDINGS, {
      metadata: { namespace: BY_HAND, name: "own", labels },
      spec: {
        state: "Bound",
        resourceSnapshotName: "own-0-snapshot",
        schedulingPolicySnapshotName: "own-0",
        targetCluster: "a",
        clusterDecision: { clusterName: "a", selected: true, reason: "own" },
      },
    });
    const refused = await eventuallyOne(
      fleet.client("hub"),
      RESOURCE_BINDINGS,
      objectKey(BY_HAND, "own"),
      (it) => outcomeOf(it) !== undefined,
    );
    expect(outcomeOf(refused)?.message).toBe(
      'ClusterRoleBinding "loot-by-hand" has no namespace: a ResourcePlacement places objects of its own namespace "team-by-hand" only',
    );
  });
});
