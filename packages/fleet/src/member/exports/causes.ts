import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import { DEPLOYMENTS, STATEFUL_SETS } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { Endpoint } from "@fairlead/kube/api/discovery/v1/types.ts";
import { formatSelector, type Labels } from "@fairlead/kube/objects/selector.ts";
import type { KubeClient, ListOptions } from "@fairlead/kube/types.ts";
import { findServed } from "#domain/served.ts";
import { whyNoPods, whyNotReady, type Workload } from "./cause.ts";
import type { ExportView } from "./view.ts";

/** One pod is named: the first of a few, as some of them may be ending. */
const MAX_PODS = 10;
/** So many Deployments and StatefulSets of a namespace are looked at, at most. */
const MAX_WORKLOADS = 500;
/** How long the workloads of a namespace are remembered: at a start many Services of it may be looked at. Unit: milliseconds. */
const KEEP_MS = 2000;

/** Asks the API server why Services have no ready endpoints. A Service that has some costs no request. */
export class Causes {
  readonly #local: KubeClient;
  readonly #deps: RuntimeDeps;
  #last:
    | { readonly namespace: string; readonly untilMs: number; readonly all: Promise<Workload[]> }
    | undefined;

  constructor(local: KubeClient, deps: RuntimeDeps) {
    this.#local = local;
    this.#deps = deps;
  }

  /** Undefined where there is nothing to find, or the agent may not read it. */
  async find(view: ExportView, signal: AbortSignal): Promise<string | undefined> {
    try {
      return await this.#why(view, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const service = `${view.namespace}/${view.name}`;
      const fields = { service, error: messageOf(error) };
      this.#deps.log.debug("cannot find out why a Service has no endpoints", fields);
      return undefined;
    }
  }

  async #why(
    { service, slices = [], namespace }: ExportView,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { selector = {}, ports = [] } = service?.spec ?? {};
    if (Object.keys(selector).length === 0) return undefined;
    switch (findServed({ ports }, slices).problems[0]?.reason) {
      case "NoEndpoints":
        return await this.#whyNone(namespace, selector, signal);
      case "NoReadyEndpoints":
        return await this.#whyUnready(
          namespace,
          slices.flatMap((it) => it.endpoints),
          signal,
        );
      default:
        return undefined;
    }
  }

  async #whyNone(namespace: string, selector: Labels, signal: AbortSignal): Promise<string> {
    const labelSelector = formatSelector({ matchLabels: { ...selector } });
    const pod = firstPod(await this.#pods({ namespace, labelSelector, limit: MAX_PODS, signal }));
    return pod === undefined
      ? whyNoPods(selector, await this.#workloads(namespace, signal))
      : whyNotReady(pod);
  }

  async #whyUnready(
    namespace: string,
    endpoints: readonly Endpoint[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const name = unreadyPod(endpoints);
    if (name === undefined) return undefined;
    // The agent may list pods, and not get one.
    const fieldSelector = `metadata.name=${name}`;
    const [pod] = await this.#pods({ namespace, fieldSelector, limit: 1, signal });
    return pod && whyNotReady(pod);
  }

  async #pods(options: ListOptions): Promise<Pod[]> {
    return (await this.#local.list(PODS, options)).items;
  }

  #workloads(namespace: string, signal: AbortSignal): Promise<Workload[]> {
    const nowMs = this.#deps.clock.monotonic();
    if (this.#last?.namespace !== namespace || this.#last.untilMs < nowMs)
      this.#last = { namespace, untilMs: nowMs + KEEP_MS, all: this.#list(namespace, signal) };
    return this.#last.all;
  }

  async #list(namespace: string, signal: AbortSignal): Promise<Workload[]> {
    const options = { namespace, limit: MAX_WORKLOADS, signal };
    const [deployments, sets] = await Promise.all([
      this.#local.list(DEPLOYMENTS, options),
      this.#local.list(STATEFUL_SETS, options),
    ]);
    const all = [
      ...deployments.items.map((it) => ({ ...it, kind: "Deployment" })),
      ...sets.items.map((it) => ({ ...it, kind: "StatefulSet" })),
    ];
    return all.map(({ kind, metadata, spec }) => ({
      kind,
      name: metadata.name,
      replicas: spec?.replicas ?? 1,
      labels: spec?.template.metadata?.labels,
    }));
  }
}

/** One that is to stay, if there is one. */
function firstPod(pods: readonly Pod[]): Pod | undefined {
  const sorted = pods.toSorted((a, b) => byNaturalText(a.metadata.name, b.metadata.name));
  return sorted.find((it) => it.metadata.deletionTimestamp === undefined) ?? sorted[0];
}

function unreadyPod(endpoints: readonly Endpoint[]): string | undefined {
  const ofPods = endpoints.filter((it) => it.targetRef?.kind === "Pod" && it.conditions?.ready === false);
  const staying = ofPods.filter((it) => it.conditions?.terminating !== true);
  return (staying.length > 0 ? staying : ofPods)
    .flatMap((it) => it.targetRef?.name ?? [])
    .toSorted(byNaturalText)[0];
}
