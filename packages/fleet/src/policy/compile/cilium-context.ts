import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Peer } from "../model.ts";
import { cidrPeer } from "../peers.ts";
import type { Attribute } from "../selector.ts";
import type { RuleContext } from "./cilium-ports.ts";
import type { Draft, PolicyObjects, PolicySettings } from "./draft.ts";

/** What the readers of peers of Cilium's kinds share. */

export interface PeerContext extends RuleContext {
  readonly draft: Draft;
  /** Of the policy; undefined for those of the cluster. */
  readonly namespace: string | undefined;
  readonly settings: PolicySettings;
  readonly objects: PolicyObjects;
}

/** The label without its source; undefined for sources other than Kubernetes. */
export function labelOf(key: string): string | undefined {
  const colon = key.indexOf(":");
  const source = colon < 0 ? "any" : key.slice(0, colon);
  return source === "any" || source === "k8s" ? key.slice(colon + 1) : undefined;
}

/** Keys of labels of objects that are not pods. */
export function plainAttribute(key: string): Attribute {
  return `pod:${labelOf(key) ?? key}`;
}

export function ofPrefixes(
  prefixes: readonly Prefix[] | undefined,
  { settings }: PeerContext,
): readonly Peer[] | undefined {
  if (prefixes === undefined || prefixes.length === 0) return prefixes === undefined ? undefined : [];
  return [
    cidrPeer(prefixes, { matchesPods: settings.cidrMatchesPods, matchesNodes: settings.cidrMatchesNodes }),
  ];
}
