import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { REPLICA_SETS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS } from "@fairlead/kube/api/core/v1/types.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { MEMBER_LABELS_POLICY, WORKLOAD_POLICY } from "@fairlead/fleet/authz/policies/guard-rails.ts";
import { installPolicy } from "@fairlead/fleet/authz/policies/install.ts";
import { type GuardedHub, hasRealServer, HUB_USER, startGuardedHub } from "./guard-server.ts";

/** The rights of each identity in the hub: RBAC permits everything to everybody here, so that each refusal is a policy's. */

const PEOPLE = {
  masters: { user: "root", groups: ["system:masters"] },
  kubeadm: { user: "admin", groups: ["kubeadm:cluster-admins"] },
  node: { user: "system:node:n1", groups: ["system:nodes"] },
  controllers: { user: "system:kube-controller-manager", groups: [] },
  account: {
    user: "system:serviceaccount:work:builder",
    groups: ["system:serviceaccounts", "system:serviceaccounts:work"],
  },
  hub: { user: HUB_USER, groups: [] },
  other: { user: "test:tenant", groups: ["tenants"] },
  memberA: { user: "fleet:member:a", groups: ["fleet:members"] },
  accountOfA: {
    user: "system:serviceaccount:fleet-member-a:fleet-member",
    groups: ["system:serviceaccounts", "system:serviceaccounts:fleet-member-a"],
  },
} as const;
type Person = keyof typeof PEOPLE;
const ALL = Object.keys(PEOPLE) as Person[];
const PRIVILEGED: readonly Person[] = ["masters", "kubeadm", "node", "controllers", "account", "hub"];
const NONE: readonly Person[] = [];
/** Members write nowhere but in their own namespace. */
const NO_MEMBERS: readonly Person[] = [...PRIVILEGED, "other"];
const OWNERS: readonly Person[] = [...PRIVILEGED, "memberA"];

type Try = (client: KubeClient) => Promise<unknown>;
const dryRun = true;
function create<T extends KubeObject>(of: Resource<T>, object: T): Try {
  return (client) => client.create(of, object, { dryRun });
}
function patch(of: Resource, key: string, change: object, subresource?: "status"): Try {
  const more = subresource === undefined ? {} : { subresource };
  return (client) => client.mergePatch(of, key as ObjectKey, change, { dryRun, ...more });
}
function remove(of: Resource, path: string): Try {
  const [name = "", namespace] = path.split("/").toReversed();
  const root = of.group === "" ? "/api/v1" : `/apis/${of.group}/${of.version}`;
  const inside = namespace === undefined ? "" : `/namespaces/${namespace}`;
  return (client) => client.request("DELETE", `${root}${inside}/${of.plural}/${name}?dryRun=All`);
}

const pod = (namespace: string) => ({
  metadata: { name: "p", namespace },
  spec: { serviceAccountName: "default", containers: [{ name: "c", image: "i" }] },
});
const replicas = (namespace: string) => ({
  metadata: { name: "r", namespace },
  spec: {
    selector: { matchLabels: { a: "b" } },
    template: { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } },
  },
});
const configMap = (namespace: string) => ({ metadata: { name: "new", namespace }, data: { a: "b" } });
const crdOf = (group: string) => ({
  metadata: { name: `things.${group}` },
  spec: {
    group,
    scope: "Cluster" as const,
    names: { kind: "Thing", listKind: "ThingList", plural: "things", singular: "thing" },
    versions: [
      { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" as const } } },
    ],
  },
});
const member = (name: string, more: { annotations?: Record<string, string> } = {}) => ({
  metadata: { name, ...more },
  spec: { identity: { kind: "User" as const, name: "u" } },
});
const mark = { annotations: { "fleet.azure.com/cluster-resource-id": "x" } };
const lease = (namespace: string, name: string) => ({ metadata: { name, namespace }, spec: {} });

const TABLE: readonly (readonly [what: string, by: Try, allowed: readonly Person[]])[] = [
  ["create a Pod in a namespace of users", create(PODS, pod("work")), NONE],
  ["create a ReplicaSet in a namespace of users", create(REPLICA_SETS, replicas("work") as never), NONE],
  ["create a Pod in fleet-system", create(PODS, pod("fleet-system")), PRIVILEGED],
  ["create a ReplicaSet in kube-system", create(REPLICA_SETS, replicas("kube-system") as never), PRIVILEGED],
  ["create a namespace", create(NAMESPACES, { metadata: { name: "new" } }), NO_MEMBERS],
  ["create namespace fleet-x", create(NAMESPACES, { metadata: { name: "fleet-x" } }), PRIVILEGED],
  ["create namespace kube-x", create(NAMESPACES, { metadata: { name: "kube-x" } }), PRIVILEGED],
  [
    "create a namespace with the fleet's label",
    create(NAMESPACES, {
      metadata: { name: "x", labels: { "kubernetes-fleet.io/is-fleet-resource": "true" } },
    }),
    PRIVILEGED,
  ],
  [
    "label namespace fleet-member-b",
    patch(NAMESPACES, "fleet-member-b", { metadata: { labels: { a: "b" } } }),
    PRIVILEGED,
  ],
  ["label namespace work", patch(NAMESPACES, "work", { metadata: { labels: { a: "b" } } }), NO_MEMBERS],
  ["delete namespace fleet-member-b", remove(NAMESPACES, "fleet-member-b"), PRIVILEGED],
  ...[
    "networking.fleet.azure.com",
    "cluster.kubernetes-fleet.io",
    "placement.kubernetes-fleet.io",
    "multicluster.x-k8s.io",
  ].map(
    (group) =>
      [`create a CRD of ${group}`, create(CUSTOM_RESOURCE_DEFINITIONS, crdOf(group)), PRIVILEGED] as const,
  ),
  ["create a CRD of another group", create(CUSTOM_RESOURCE_DEFINITIONS, crdOf("example.com")), NO_MEMBERS],
  [
    "delete the CRD of Works",
    remove(CUSTOM_RESOURCE_DEFINITIONS, "works.placement.kubernetes-fleet.io"),
    PRIVILEGED,
  ],
  ["create a ConfigMap in a namespace of users", create(CONFIG_MAPS, configMap("work")), NO_MEMBERS],
  ["create a ConfigMap in fleet-system", create(CONFIG_MAPS, configMap("fleet-system")), PRIVILEGED],
  ["create a ConfigMap in kube-public", create(CONFIG_MAPS, configMap("kube-public")), PRIVILEGED],
  [
    "create a ConfigMap in the namespace of member b",
    create(CONFIG_MAPS, configMap("fleet-member-b")),
    PRIVILEGED,
  ],
  [
    "create a ConfigMap in the namespace of member a",
    create(CONFIG_MAPS, configMap("fleet-member-a")),
    OWNERS,
  ],
  [
    "create a ServiceAccount in fleet-system",
    create(SERVICE_ACCOUNTS, { metadata: { name: "new", namespace: "fleet-system" } }),
    PRIVILEGED,
  ],
  [
    "request a token in fleet-system",
    (client) =>
      client.request("POST", "/api/v1/namespaces/fleet-system/serviceaccounts/default/token?dryRun=All", {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: {},
      }),
    PRIVILEGED,
  ],
  ["delete a ConfigMap in fleet-system", remove(CONFIG_MAPS, "fleet-system/present"), PRIVILEGED],
  ["delete a ConfigMap in a namespace of users", remove(CONFIG_MAPS, "work/present"), NO_MEMBERS],
  ["create a Lease in fleet-system", create(LEASES, lease("fleet-system", "l")), NO_MEMBERS],
  ["delete a Lease in kube-node-lease", remove(LEASES, "kube-node-lease/present"), NO_MEMBERS],
  [
    "write an Event in kube-system",
    create(EVENTS, {
      metadata: { name: "e", namespace: "kube-system" },
      involvedObject: { namespace: "kube-system" },
    }),
    NO_MEMBERS,
  ],
  ["create a MemberCluster", create(MEMBER_CLUSTERS, member("new")), NO_MEMBERS],
  [
    "create a MemberCluster with the product's annotation",
    create(MEMBER_CLUSTERS, member("new", mark)),
    PRIVILEGED,
  ],
  [
    "change spec of a MemberCluster",
    patch(MEMBER_CLUSTERS, "a", { spec: { heartbeatPeriodSeconds: 5 } }),
    NO_MEMBERS,
  ],
  ["label a MemberCluster", patch(MEMBER_CLUSTERS, "a", { metadata: { labels: { a: "b" } } }), NO_MEMBERS],
  [
    "add the product's annotation to a MemberCluster",
    patch(MEMBER_CLUSTERS, "a", { metadata: mark }),
    PRIVILEGED,
  ],
  [
    "remove the product's annotation",
    patch(MEMBER_CLUSTERS, "product", {
      metadata: { annotations: { "fleet.azure.com/cluster-resource-id": null } },
    }),
    PRIVILEGED,
  ],
  [
    "change spec of a product's MemberCluster",
    patch(MEMBER_CLUSTERS, "product", { spec: { heartbeatPeriodSeconds: 5 } }),
    PRIVILEGED,
  ],
  [
    "taint a product's MemberCluster",
    patch(MEMBER_CLUSTERS, "product", { spec: { taints: [{ key: "a", effect: "NoSchedule" }] } }),
    NO_MEMBERS,
  ],
  [
    "label a product's MemberCluster",
    patch(MEMBER_CLUSTERS, "product", { metadata: { labels: { a: "b" } } }),
    NO_MEMBERS,
  ],
  ["delete a product's MemberCluster", remove(MEMBER_CLUSTERS, "product"), PRIVILEGED],
  [
    "write the status of a MemberCluster",
    patch(MEMBER_CLUSTERS, "a", { status: { properties: {} } }, "status"),
    PRIVILEGED,
  ],
];

describe.each(["embedded", "real"] as const)("who may do what in the hub (%s)", (kind) => {
  describe.skipIf(kind === "real" && !hasRealServer)("by its guard rails", () => {
    let hub: GuardedHub;
    beforeAll(async () => {
      hub = await startGuardedHub(kind);
      await permitAll(hub.admin);
      const by = { fieldManager: "test" };
      for (const namespace of [
        "work",
        "fleet-system",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "fleet-member-a",
      ])
        await hub.admin.apply(NAMESPACES, { metadata: { name: namespace } }, by);
      for (const namespace of ["work", "fleet-system", "kube-system"])
        await hub.admin.apply(SERVICE_ACCOUNTS, { metadata: { name: "default", namespace } }, by);
      for (const namespace of ["work", "fleet-system"])
        await hub.admin.apply(CONFIG_MAPS, { metadata: { name: "present", namespace } }, by);
      await hub.admin.apply(LEASES, { metadata: { name: "present", namespace: "kube-node-lease" } }, by);
      await hub.admin.apply(MEMBER_CLUSTERS, member("product", mark), by);
      await installPolicy(hub.admin, WORKLOAD_POLICY, AbortSignal.timeout(20_000));
      await until(hub.admin, create(PODS, pod("work")));
    }, 180_000);
    afterAll(() => hub[Symbol.asyncDispose]());

    const clientOf = (person: Person) => hub.as(PEOPLE[person].user, PEOPLE[person].groups);

    describe.each(TABLE)("%s", (_, by, allowed) => {
      it.each(ALL)("by %s", async (person) => {
        expect(await refusal(by(await clientOf(person)))).toBe(
          allowed.includes(person) ? undefined : "policy",
        );
      });
    });

    it("a member writes into its own namespace what its Role permits, and a Work only its status and finalizers", async () => {
      const workload = { manifests: [{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" } }] };
      const work = { metadata: { name: "w", namespace: "fleet-member-a" }, spec: { workload } };
      await hub.admin.create(WORKS, work);
      const key = "fleet-member-a/w";
      const [own, other] = [await clientOf("memberA"), await hub.as("fleet:member:b", ["fleet:members"])];
      const tries: readonly [Try, boolean][] = [
        [patch(WORKS, key, { metadata: { finalizers: ["kubernetes-fleet.io/work-cleanup"] } }), true],
        [patch(WORKS, key, { status: { conditions: [] } }, "status"), true],
        [patch(WORKS, key, { spec: { workload: { manifests: [] } } }), false],
        [remove(WORKS, key), false],
        [create(WORKS, { ...work, metadata: { ...work.metadata, name: "mine" } }), false],
      ];
      for (const [by, isAllowed] of tries) {
        expect(await refusal(by(own))).toBe(isAllowed ? undefined : "policy");
        expect(await refusal(by(other))).toBe("policy");
      }
    });

    it("labels of MemberClusters are locked to all but masters and the hub, where the optional policy is bound", async () => {
      await installPolicy(hub.admin, MEMBER_LABELS_POLICY, AbortSignal.timeout(20_000));
      const foreign = patch(MEMBER_CLUSTERS, "a", { metadata: { labels: { a: "b" } } });
      await until(await clientOf("kubeadm"), foreign);
      const ours = patch(MEMBER_CLUSTERS, "a", { metadata: { labels: { "kubernetes-fleet.io/x": "y" } } });
      for (const person of ["masters", "hub", "kubeadm", "other"] as const) {
        const isFree = person === "masters" || person === "hub";
        expect(await refusal(foreign(await clientOf(person)))).toBe(isFree ? undefined : "policy");
        expect(await refusal(ours(await clientOf(person)))).toBeUndefined();
      }
    });
  });
});

/** Undefined when it was let in; "policy" when a policy refused it. */
async function refusal(what: Promise<unknown>): Promise<string | undefined> {
  try {
    await what;
    return undefined;
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    return error.message.includes("ValidatingAdmissionPolicy 'fairlead-") ? "policy" : error.message;
  }
}

/** A server applies a stored policy after a moment. */
async function until(client: KubeClient, isRefused: Try): Promise<void> {
  await vi.waitFor(async () => expect(await refusal(isRefused(client))).toBe("policy"), { timeout: 30_000 });
}

/** Everything but the verb that administrators of mailboxes have. */
async function permitAll(admin: KubeClient): Promise<void> {
  const by = { fieldManager: "test" };
  const verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
  const metadata = { name: "everything" };
  await admin.apply(CLUSTER_ROLES, { metadata, rules: [{ apiGroups: ["*"], resources: ["*"], verbs }] }, by);
  const roleRef = {
    apiGroup: "rbac.authorization.k8s.io" as const,
    kind: "ClusterRole" as const,
    ...metadata,
  };
  const group = {
    kind: "Group" as const,
    apiGroup: "rbac.authorization.k8s.io",
    name: "system:authenticated",
  };
  await admin.apply(CLUSTER_ROLE_BINDINGS, { metadata, roleRef, subjects: [group] }, by);
}
