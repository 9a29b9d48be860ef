import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { POD_DISRUPTION_BUDGETS, type PodDisruptionBudget } from "@fairlead/kube/api/policy/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { matcherOf } from "@fairlead/kube/objects/selector.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, KubeClient, ReconcileResult, Source } from "@fairlead/kube/types.ts";
import { untilEnding } from "../ending.ts";
import type { LabInformers } from "../informers.ts";
import { controllerOf, isReady } from "../pods.ts";
import { type BudgetPlan, needsScale, planBudget } from "./plan.ts";

type Needs = Pick<
  LabInformers,
  "disruptionBudgets" | "pods" | "deployments" | "replicaSets" | "statefulSets"
>;

interface Parts {
  readonly client: KubeClient;
  readonly informers: Needs;
  readonly events: EventRecorder;
}

/** Says how many pods of each PodDisruptionBudget may be evicted; it is the API server that grants evictions. */
export function disruptionController(parts: Parts, deps: RuntimeDeps): Controller {
  const { disruptionBudgets, pods, deployments, replicaSets, statefulSets } = parts.informers;
  return createController(
    {
      name: "disruption",
      reconcile: untilEnding((key, signal) => reconcile(parts, deps, { key, signal })),
      sources: [
        watching(disruptionBudgets),
        watching(pods, (change) => budgetsOfPod(parts.informers, change)),
        ...[deployments, replicaSets, statefulSets].map((informer) =>
          watching(informer as Source["informer"], (change) => budgetsOfScale(parts.informers, change)),
        ),
      ],
    },
    deps,
  );
}

async function reconcile(
  { client, informers, events }: Parts,
  { clock }: RuntimeDeps,
  { key, signal }: { readonly key: ObjectKey; readonly signal: AbortSignal },
): Promise<ReconcileResult> {
  const budget = informers.disruptionBudgets.store.get(key);
  if (budget === undefined || isDeleting(budget)) return {};
  const matches = matcherOf(budget.spec?.selector);
  const inNamespace = informers.pods.store.byIndex("namespace", budget.metadata.namespace ?? "");
  const pods = [...inNamespace].filter((pod) => matches(pod.metadata.labels));
  const expected = needsScale(budget) ? expectedScale(informers, pods) : 0;
  const plan = planBudget({ budget, pods, expected, clock });
  report(events, { budget, pods, expected, plan });
  if (!sameJson(budget.status ?? {}, plan.status))
    await client.update(
      POD_DISRUPTION_BUDGETS,
      { ...budget, status: plan.status },
      { subresource: "status", signal },
    );
  return plan.checkInMs === undefined ? {} : { requeueAfterMs: plan.checkInMs + 1 };
}

function report(
  events: EventRecorder,
  at: {
    readonly budget: PodDisruptionBudget;
    readonly pods: readonly Pod[];
    readonly expected: number | string;
    readonly plan: BudgetPlan;
  },
): void {
  const { budget, pods, expected, plan } = at;
  const isNew = !sameJson(budget.status ?? {}, plan.status);
  if (pods.length === 0 && isNew)
    events.record(POD_DISRUPTION_BUDGETS, budget, {
      type: "Normal",
      reason: "NoPods",
      message: "No matching pods found",
    });
  if (typeof expected === "string" && isNew)
    events.record(POD_DISRUPTION_BUDGETS, budget, {
      type: "Warning",
      reason: "CalculateExpectedPodCountFailed",
      message: `Failed to calculate the number of expected pods: ${expected}`,
    });
  const { namespace, name } = budget.metadata;
  const message = `Pod was expected by PDB ${namespace}/${name} to be deleted but it wasn't`;
  for (const pod of plan.late) events.record(PODS, pod, { type: "Warning", reason: "NotDeleted", message });
}

/** The sum over the workloads that the pods belong to; pods without one add nothing. */
function expectedScale(informers: Needs, pods: readonly Pod[]): number | string {
  const scales = new Map<string, number>();
  for (const pod of pods) {
    const owner = controllerOf(pod);
    if (owner === undefined) continue;
    const found = scaleOf(informers, owner, pod.metadata.namespace);
    if (found === undefined)
      return `${owner.kind.toLowerCase()}s.${owner.apiVersion.split("/")[0]} does not implement the scale subresource`;
    scales.set(found.uid, found.replicas);
  }
  return [...scales.values()].reduce((sum, replicas) => sum + replicas, 0);
}

interface Scale {
  readonly uid: string;
  readonly replicas: number;
}

function scaleOf(informers: Needs, owner: OwnerReference, namespace: string | undefined): Scale | undefined {
  const key = objectKey(namespace, owner.name);
  if (owner.kind === "StatefulSet") return scaled(informers.statefulSets.store.get(key), owner);
  if (owner.kind === "Deployment") return scaled(informers.deployments.store.get(key), owner);
  if (owner.kind !== "ReplicaSet") return undefined;
  const set = informers.replicaSets.store.get(key);
  const deployment = set === undefined ? undefined : controllerOf(set);
  return deployment?.kind === "Deployment" ? scaleOf(informers, deployment, namespace) : scaled(set, owner);
}

/** A deleted workload desires no pods. */
function scaled(
  workload: (KubeObject & { readonly spec?: { readonly replicas?: number } }) | undefined,
  { uid }: OwnerReference,
): Scale {
  const isSame = workload?.metadata.uid === uid;
  return { uid, replicas: isSame ? (workload?.spec?.replicas ?? 1) : 0 };
}

/** The budgets that select the pod, or did; none where nothing that they look at has changed. */
function budgetsOfPod({ disruptionBudgets }: Needs, { before, after }: Change<Pod>): ObjectKey[] {
  if (before !== undefined && after !== undefined && sameJson(facetsOf(before), facetsOf(after))) return [];
  const { namespace = "" } = (after ?? before)?.metadata ?? {};
  return [...disruptionBudgets.store.byIndex("namespace", namespace)]
    .filter((budget) => {
      const matches = matcherOf(budget.spec?.selector);
      return [before, after].some((pod) => pod !== undefined && matches(pod.metadata.labels));
    })
    .map((budget) => keyOf(budget));
}

function facetsOf(pod: Pod): unknown {
  const { labels, uid, ownerReferences } = pod.metadata;
  return { labels, uid, ownerReferences, ready: isReady(pod), deleting: isDeleting(pod) };
}

/** When a workload is scaled its pods say which budgets that concerns. */
function budgetsOfScale({ disruptionBudgets }: Needs, { before, after }: Change<KubeObject>): ObjectKey[] {
  if (replicasOf(before) === replicasOf(after)) return [];
  const { namespace = "" } = (after ?? before)?.metadata ?? {};
  return [...disruptionBudgets.store.byIndex("namespace", namespace)].map((budget) => keyOf(budget));
}

function replicasOf(object: KubeObject | undefined): unknown {
  return (object as { readonly spec?: { readonly replicas?: number } } | undefined)?.spec?.replicas;
}
