import { jsonKey } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { type Matcher, matcherOf } from "@fairlead/kube/objects/selector.ts";
import {
  type IdentityRequest,
  type IdentityWants,
  MAX_IDENTITY_REQUESTS,
} from "#api/fairlead.dev/v1alpha1/identities.ts";

/** Which pods, namespaces and nodes other members need to know of. Pure. */

type Labels = Readonly<Record<string, string>>;

export interface WantsReader {
  readonly isEmpty: boolean;
  readonly nodes: boolean;
  /** Whether addresses are needed that no selector of pods selects: of a cluster, or of those that requests are for. */
  readonly addresses: (cluster?: string) => boolean;
  readonly namespace: (name: string, labels: Labels | undefined) => boolean;
  readonly pods: (namespace: string, namespaceLabels: Labels | undefined, labels: Labels) => boolean;
}

interface ReadRequest {
  readonly namespace: (name: string, labels: Labels | undefined) => boolean;
  readonly pods: Matcher;
}

/**
 * Labels of a namespace that are not known match every selector: more is wanted then than needed. A request that cannot be
 * read wants nothing.
 *
 * @param cluster - The one whose pods are asked for; undefined: requests for all clusters are taken as they are.
 */
export function readWants(wants: IdentityWants | undefined, cluster?: string): WantsReader {
  const requests = (wants?.requests ?? [])
    .filter((it) => cluster === undefined || it.clusters?.includes(cluster) !== false)
    .flatMap((it) => readRequest(it) ?? []);
  const nodes = wants?.nodes === true;
  const withAddresses = (wants?.requests ?? []).filter((it) => it.addresses === true);
  return {
    addresses: (of) =>
      withAddresses.some((it) => of === undefined || it.clusters === undefined || it.clusters.includes(of)),
    isEmpty: requests.length === 0 && !nodes,
    nodes,
    namespace: (name, labels) => requests.some((it) => it.namespace(name, labels)),
    pods: (namespace, namespaceLabels, labels) =>
      requests.some((it) => it.namespace(namespace, namespaceLabels) && it.pods(labels)),
  };
}

function readRequest({
  namespaces,
  namespaceSelector,
  podSelector,
}: IdentityRequest): ReadRequest | undefined {
  const [ofNamespace, pods] = [tryMatcher(namespaceSelector), tryMatcher(podSelector)];
  if (ofNamespace === undefined || pods === undefined) return undefined;
  const names = namespaces === undefined ? undefined : new Set(namespaces);
  return {
    namespace: (name, labels) => names?.has(name) !== false && (labels === undefined || ofNamespace(labels)),
    pods,
  };
}

function tryMatcher(selector: LabelSelector = {}): Matcher | undefined {
  try {
    return matcherOf(selector);
  } catch {
    return undefined;
  }
}

/** In one order and without repetition; if there are too many, everything is wanted. */
export function wantsOf(requests: readonly IdentityRequest[], nodes: boolean): IdentityWants {
  const distinct = new Map(requests.map((it) => [jsonKey(it), it]));
  const sorted = [...distinct].toSorted(([a], [b]) => byText(a, b)).map(([, it]) => it);
  const isAll = sorted.length > MAX_IDENTITY_REQUESTS || sorted.some(isOfAllPods);
  const kept = isAll ? withAllPods(sorted) : sorted;
  return { requests: kept, ...(nodes ? { nodes } : {}) };
}

function isOfAllPods(request: IdentityRequest): boolean {
  return Object.keys(request).every((it) => it === "addresses");
}

/** Of the requests, what is more than all pods: addresses. */
function withAllPods(requests: readonly IdentityRequest[]): IdentityRequest[] {
  const more = requests.filter((it) => it.addresses === true);
  const named = more.map((it) => it.clusters);
  const clusters = named.flatMap((it) => it ?? []);
  if (more.length === 0) return [{}];
  if (named.includes(undefined)) return [{ addresses: true }];
  return [{}, { clusters: [...new Set(clusters)].toSorted(byText), addresses: true }];
}
