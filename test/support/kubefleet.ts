import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
  MEMBER_CLUSTER_FINALIZER,
  MEMBER_CLUSTERS,
  type MemberCluster,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, type Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ROLE_BINDINGS, ROLES, type Role, type RoleBinding } from "@fairlead/kube/api/rbac/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { aborted, testDeps } from "./fleet.ts";

/**
 * The part of KubeFleet's hub agent for members: a mailbox, permissions and an InternalMemberCluster for each, written as whole objects whenever they
 * are not as it wants them. So it reverts the writes of others there, and `writes` grows.
 */

const KUBEFLEET = "hub-agent";
const GROUPS = ["cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io", "networking.fleet.azure.com"];

export class KubeFleet {
  readonly #client: KubeClient;
  writes = 0;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  async run(signal: AbortSignal): Promise<void> {
    const deps = testDeps("kubefleet");
    const make = <T extends KubeObject>(of: Resource<T>): Informer<T> =>
      createInformer(this.#client, of, {}, deps);
    const members = make(MEMBER_CLUSTERS);
    const internalMembers = make(INTERNAL_MEMBER_CLUSTERS);
    const [namespaces, roles, bindings] = [make(NAMESPACES), make(ROLES), make(ROLE_BINDINGS)];
    await using stack = new AsyncDisposableStack();
    const everything = [members, internalMembers, namespaces, roles, bindings] as Informer<KubeObject>[];
    for (const it of everything) stack.use(it);
    const all = () => [...members.store.list()].map(keyOf);
    await using controller = createController(
      {
        name: "kubefleet",
        concurrency: 1,
        reconcile: async (key) => {
          const member = members.store.get(key);
          if (member === undefined) return;
          const own = objectKey(`fleet-member-${key}`, key);
          const mailbox = namespaces.store.get(objectKey(undefined, `fleet-member-${key}`));
          if (member.metadata.deletionTimestamp !== undefined) return this.#leave(member, mailbox);
          await this.#hold(member);
          await this.#provide(NAMESPACES, mailbox, namespaceOf(key));
          await this.#provide(
            ROLES,
            roles.store.get(objectKey(own.split("/")[0], `fleet-role-${key}`)),
            roleOf(key),
          );
          await this.#provide(
            ROLE_BINDINGS,
            bindings.store.get(objectKey(own.split("/")[0], `fleet-rolebinding-${key}`)),
            bindingOf(member),
          );
          await this.#provide(
            INTERNAL_MEMBER_CLUSTERS,
            internalMembers.store.get(own),
            internalMemberOf(member),
          );
        },
        sources: [watching(members), ...everything.slice(1).map((it) => watching(it, all))],
      },
      deps,
    );
    await controller.start(signal);
    await aborted(signal);
  }

  async #hold(member: MemberCluster): Promise<void> {
    const { finalizers = [] } = member.metadata;
    if (finalizers.includes(MEMBER_CLUSTER_FINALIZER)) return;
    const metadata = { ...member.metadata, finalizers: [...finalizers, MEMBER_CLUSTER_FINALIZER] };
    await this.#write(() => this.#client.update(MEMBER_CLUSTERS, { ...member, metadata }));
  }

  /** Replaces differing fields of an existing object by those of the desired one, and its whole spec. */
  async #provide<T extends KubeObject>(
    of: Resource<T>,
    current: T | undefined,
    { metadata, ...rest }: T,
  ): Promise<void> {
    const fieldManager = KUBEFLEET;
    if (current === undefined) {
      const object = { ...rest, metadata } as T;
      await this.#write(() => this.#client.create(of, object, { fieldManager }));
      return;
    }
    const wanted = Object.entries(rest);
    const labels = { ...current.metadata.labels, ...metadata.labels };
    const isAsWanted =
      sameJson(current.metadata.labels ?? {}, labels) &&
      wanted.every(([name, value]) => sameJson((current as unknown as Record<string, unknown>)[name], value));
    if (isAsWanted) return;
    const object = { ...current, ...rest, metadata: { ...current.metadata, labels } } as T;
    await this.#write(() => this.#client.update(of, object, { fieldManager }));
  }

  /** It does not wait for agents: its own have left, and the mailbox ends. */
  async #leave(member: MemberCluster, mailbox: Namespace | undefined): Promise<void> {
    if (mailbox === undefined) {
      const metadata = { ...member.metadata, finalizers: [] };
      await this.#client.update(MEMBER_CLUSTERS, { ...member, metadata });
    } else if (mailbox.metadata.deletionTimestamp === undefined)
      await this.#client.delete(NAMESPACES, keyOf(mailbox));
  }

  async #write(write: () => Promise<unknown>): Promise<void> {
    await write();
    this.writes += 1;
  }
}

function namespaceOf(cluster: string): Namespace {
  return {
    metadata: {
      name: `fleet-member-${cluster}`,
      labels: { "kubernetes-fleet.io/is-fleet-resource": "true" },
    },
  };
}

function roleOf(cluster: string): Role {
  return {
    metadata: { namespace: `fleet-member-${cluster}`, name: `fleet-role-${cluster}` },
    rules: [
      { apiGroups: GROUPS, resources: ["*"], verbs: ["*"] },
      {
        apiGroups: [""],
        resources: ["events"],
        verbs: ["get", "list", "update", "patch", "watch", "create"],
      },
    ],
  };
}

function bindingOf({ metadata: { name }, spec }: MemberCluster): RoleBinding {
  return {
    metadata: { namespace: `fleet-member-${name}`, name: `fleet-rolebinding-${name}` },
    subjects: [spec.identity],
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: `fleet-role-${name}` },
  };
}

function internalMemberOf({ metadata: { name }, spec }: MemberCluster): InternalMemberCluster {
  return {
    metadata: { namespace: `fleet-member-${name}`, name },
    spec: { state: "Join", heartbeatPeriodSeconds: spec.heartbeatPeriodSeconds ?? 60 },
  };
}
