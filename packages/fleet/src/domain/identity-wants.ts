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
  return {
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
  const whole = [...distinct.values()].filter((it) => Object.keys(it).length === 0);
  const sorted = [...distinct].toSorted(([a], [b]) => byText(a, b)).map(([, it]) => it);
  const isTooMany = sorted.length > MAX_IDENTITY_REQUESTS;
  const kept = whole.length > 0 || isTooMany ? [{}] : sorted;
  return { requests: kept, ...(nodes ? { nodes } : {}) };
}
