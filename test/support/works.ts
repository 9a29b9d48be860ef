import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { PARENT_PLACEMENT_LABEL } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/names.ts";
import { APPLIED_WORK_CRD, WORK_CRD } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/work-crds.ts";
import {
  type ManifestCondition,
  type Work,
  WORKS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import {
  createAppliedWorkInformer,
  createWorkApplier,
  createWorkInformer,
} from "@fairlead/fleet/member/work/applier.ts";
import type { WorkSession } from "@fairlead/fleet/member/work/parts.ts";
import { MEMBER_WORK_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { ensureNamespace, startCluster, type TestCluster, testDeps } from "./fleet.ts";
import { eventuallyOne } from "./waiting.ts";

/** A hub and a member, real API servers both, with the applier of Works between them and nothing else. */

const MAILBOX_NAMESPACE = "fleet-member-a";

export interface WorkBench extends AsyncDisposable {
  readonly hub: TestCluster;
  readonly member: TestCluster;
  /** Starts an applier, in the place of the one that runs. */
  restart(options?: Partial<WorkSession>): Promise<Controller>;
  stop(): Promise<void>;
}

export async function startWorkBench(options: Partial<WorkSession> = {}): Promise<WorkBench> {
  await using stack = new AsyncDisposableStack();
  const [hub, member] = await Promise.all([startCluster("hub", []), startCluster("a", [MEMBER_WORK_ACCESS])]);
  stack.use(hub);
  stack.use(member);
  const signal = AbortSignal.timeout(30_000);
  const install = (client: KubeClient, crds: (typeof WORK_CRD)[]): Promise<void> =>
    installCrds(client, { crds, fieldManager: "test" }, testDeps("test"), signal);
  await Promise.all([install(hub.client, [WORK_CRD]), install(member.client, [APPLIED_WORK_CRD])]);
  await ensureNamespace(hub.client, MAILBOX_NAMESPACE);
  let running: AsyncDisposableStack | undefined;
  const stop = async (): Promise<void> => {
    await running?.disposeAsync();
    running = undefined;
  };
  const restart = async (more: Partial<WorkSession> = {}): Promise<Controller> => {
    await stop();
    const next = new AsyncDisposableStack();
    running = next;
    const deps = testDeps("member");
    const works = next.use(createWorkInformer(hub.client, MAILBOX_NAMESPACE, deps));
    const appliedWorks = next.use(createAppliedWorkInformer(member.client, deps));
    const controller = next.use(
      createWorkApplier({
        local: member.client,
        hub: hub.client,
        works,
        appliedWorks,
        membership: () => "join",
        sources: [],
        deps,
        ...options,
        ...more,
      }),
    );
    const ended = new AbortController();
    next.defer(() => ended.abort());
    await controller.start(ended.signal);
    return controller;
  };
  await restart();
  const held = stack.move();
  return {
    hub,
    member,
    restart,
    stop,
    async [Symbol.asyncDispose]() {
      await stop();
      await held.disposeAsync();
    },
  };
}

export function workOf(
  name: string,
  manifests: readonly object[],
  { placement = name, ...spec }: Partial<Work["spec"]> & { readonly placement?: string } = {},
): Work {
  return {
    metadata: { namespace: MAILBOX_NAMESPACE, name, labels: { [PARENT_PLACEMENT_LABEL]: placement } },
    spec: { workload: { manifests: manifests as KubeObject[] }, ...spec },
  };
}

export const namespace = (name: string): object => ({
  apiVersion: "v1",
  kind: NAMESPACES.kind,
  metadata: { name },
});
export const configMap = (inNamespace: string, name: string, data: object = { a: "1" }): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { namespace: inNamespace, name },
  data,
});

/** The Work, once its status is as wanted for its present generation. */
export function eventuallyWork(
  { hub }: Pick<WorkBench, "hub">,
  name: string,
  isSo: (work: Work) => boolean,
): Promise<Work> {
  return eventuallyOne(hub.client, WORKS, objectKey(MAILBOX_NAMESPACE, name), isSo);
}

/** "Applied=True AllManifestsApplied", for the present generation; empty if it is not known. */
export function conditionOf(work: Work, type: string): string {
  const found = findCondition(work.status?.conditions, type);
  if (found === undefined || found.observedGeneration !== work.metadata.generation) return "";
  return `${found.status} ${found.reason}`;
}

export function isApplied(work: Work): boolean {
  return conditionOf(work, "Applied") === "True AllManifestsApplied";
}

export function manifestOf(work: Work, ordinal: number): ManifestCondition {
  const found = work.status?.manifestConditions?.find((it) => it.identifier.ordinal === ordinal);
  if (found === undefined)
    throw new Error(`no status of manifest ${ordinal}: ${JSON.stringify(work.status)}`);
  return found;
}

/** The reason of a condition of a manifest; empty if it has none. */
export function reasonOf(work: Work, ordinal: number, type = "Applied"): string {
  const manifest = work.status?.manifestConditions?.find((it) => it.identifier.ordinal === ordinal);
  return findCondition(manifest?.conditions, type)?.reason ?? "";
}

type Write = "create" | "update" | "mergePatch" | "jsonPatch" | "apply" | "delete";
const WRITES: readonly string[] = [
  "create",
  "update",
  "mergePatch",
  "jsonPatch",
  "apply",
  "delete",
] satisfies Write[];

export interface Call {
  readonly verb: string;
  readonly plural: string;
  readonly name: string;
  readonly isDryRun: boolean;
}

/** The client, with its calls reported before they are sent. What `onCall` throws or waits for happens in their place. */
export function observed(
  client: KubeClient,
  onCall: (call: Call) => void | Promise<void>,
  verbs: readonly string[] = WRITES,
): KubeClient {
  return new Proxy(client, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      const method = (value as (...args: unknown[]) => unknown).bind(target);
      if (!verbs.includes(String(property))) return method;
      return async (of: { plural: string }, subject: unknown, ...rest: unknown[]) => {
        const name =
          typeof subject === "string"
            ? subject.slice(subject.indexOf("/") + 1)
            : (subject as KubeObject).metadata.name;
        const isDryRun = rest.some((it) => (it as { dryRun?: boolean } | undefined)?.dryRun === true);
        await onCall({ verb: String(property), plural: of.plural, name, isDryRun });
        return method(of, subject, ...rest);
      };
    },
  });
}
