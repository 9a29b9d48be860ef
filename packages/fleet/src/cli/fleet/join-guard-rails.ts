import {
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { KubeClient, ListOptions } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_UID_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { WORKLOAD_POLICY } from "#authz/policies/guard-rails.ts";
import { enforcingWebhooks, installPolicy } from "#authz/policies/install.ts";
import { clusterUid } from "./clusters.ts";
import type { Joining } from "./joining.ts";
import { listOrNone } from "./leave-member.ts";
import type { Step } from "./steps.ts";

/** Keeps Pods out of a hub that is nothing but a hub: it then holds the workloads of members without running them. */
export function workloadsStep(joining: Joining): Step {
  const { hub, signal } = joining;
  const { name } = WORKLOAD_POLICY.metadata;
  return {
    title: `keep workloads out of ${hub.who}`,
    plan: async () => {
      const why = await whyNot(joining);
      const note = why === undefined ? {} : { note: why };
      const verb = why === undefined ? "create" : "none";
      return [{ cluster: hub.who, verb, kind: "ValidatingAdmissionPolicy", name, ...note }];
    },
    // Not undone: it protects other members too.
    run: async () => {
      const why = await whyNot(joining);
      if (why === BECOMES_MEMBER) await removePolicy(hub.client, signal);
      if (why !== undefined) return why;
      await installPolicy(hub.client, WORKLOAD_POLICY, signal);
      // The hub's own cluster may have been registered in the meantime.
      if (!(await isMemberToo(hub.client, signal))) return undefined;
      await removePolicy(hub.client, signal);
      return MEMBER_TOO;
    },
  };
}

async function removePolicy(client: KubeClient, signal: AbortSignal): Promise<void> {
  for (const kind of [VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICIES])
    await client.delete<KubeObject>(kind, keyOf(WORKLOAD_POLICY), { signal });
}

async function isMemberToo(client: KubeClient, signal: AbortSignal): Promise<boolean> {
  const own = await clusterUid(client, "the hub", signal);
  const members = await listOrNone(client, MEMBER_CLUSTERS, { signal });
  return members.some((it) => it.metadata.annotations?.[CLUSTER_UID_ANNOTATION] === own);
}

const MEMBER_TOO = "not installed: the hub's cluster is a member, too";
const BECOMES_MEMBER = "not installed: the hub's cluster becomes a member, too";

/** Undefined if the policy is to be installed. */
async function whyNot({ hub: { client }, uid, signal }: Joining): Promise<string | undefined> {
  try {
    const own = await clusterUid(client, "the hub", signal);
    if (own === uid) return BECOMES_MEMBER;
    if ((await client.find(VALIDATING_ADMISSION_POLICIES, keyOf(WORKLOAD_POLICY), { signal })) !== undefined)
      return "already there";
    const webhooks = await enforcingWebhooks(client, signal);
    if (webhooks.length > 0) return `left to KubeFleet's ${webhooks.join(" and ")}`;
    if (await isMemberToo(client, signal)) return MEMBER_TOO;
    const pod = await podElsewhere(client, signal);
    return pod === undefined ? undefined : `not installed: Pod ${pod} runs in the hub's cluster`;
  } catch (error) {
    // Servers before Kubernetes 1.30.
    if (!hasCode(error, "API_FORBIDDEN", "API_NOT_FOUND")) throw error;
    return "not installed: the server has no admission policies, or does not permit to install them";
  }
}

/** A Pod outside of reserved namespaces. */
async function podElsewhere(client: KubeClient, signal: AbortSignal): Promise<string | undefined> {
  let next = "";
  do {
    const at: ListOptions = next === "" ? {} : { continue: next };
    const { items, metadata } = await client.list(PODS, { limit: 500, ...at, signal });
    const found = items.find((it) => !/^(fleet|kube)-/.test(it.metadata.namespace ?? ""));
    if (found !== undefined) return keyOf(found);
    next = metadata.continue ?? "";
  } while (next !== "");
  return undefined;
}
