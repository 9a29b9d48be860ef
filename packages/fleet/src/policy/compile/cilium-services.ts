import type { Fields } from "@fairlead/base/fields.ts";
import { bitsOf, familyOf } from "@fairlead/base/netaddr/address.ts";
import { prefixOf } from "@fairlead/base/netaddr/prefix.ts";
import type { Peer } from "../model.ts";
import { podsPeer } from "../peers.ts";
import { selectorOf, selects } from "../selector.ts";
import { ofPrefixes, type PeerContext, plainAttribute } from "./cilium-context.ts";
import type { PolicyService } from "./draft.ts";
import { isIn, peerSelector, podAttribute, requirementsOf } from "./labels.ts";
import { open, type Part, partAt } from "./part.ts";

/** `toServices`: the pods that the selectors of Services select, or the addresses of Services without one. */

type IsMeant = (service: PolicyService) => boolean;

export function serviceOf(part: Part, context: PeerContext): readonly Peer[] | undefined {
  context.draft.reads.services = true;
  const fields = open(part, ["k8sService", "k8sServiceSelector"], context.refuse);
  if (fields === undefined) return undefined;
  const named = partAt(fields, part.path, "k8sService");
  const selected = partAt(fields, part.path, "k8sServiceSelector");
  if ((named === undefined) === (selected === undefined))
    return context.refuse(part.path, "Exactly one of k8sService and k8sServiceSelector is needed.");
  const isMeant = (named && byName(named, context)) ?? (selected && bySelector(selected, context));
  return isMeant && context.objects.services.filter(isMeant).flatMap((it) => peersOf(it, context));
}

function byName(part: Part, context: PeerContext): IsMeant | undefined {
  const fields = open(part, ["serviceName", "namespace"], context.refuse);
  const isHome = fields && inNamespace(fields, context);
  return isHome && ((it) => it.name === fields["serviceName"] && isHome(it));
}

function bySelector(part: Part, context: PeerContext): IsMeant | undefined {
  const fields = open(part, ["selector", "namespace"], context.refuse);
  if (fields === undefined) return undefined;
  const labels = { path: `${part.path}.selector`, value: fields["selector"] };
  const requirements = requirementsOf(labels, plainAttribute, context.refuse);
  if (requirements === undefined) return undefined;
  const selector = selectorOf(requirements);
  const isHome = inNamespace(fields, context);
  return (it) => isHome(it) && selects(selector, (label) => it.labels[label.slice("pod:".length)]);
}

/** By default that of the policy; for one of the cluster, all. */
function inNamespace(fields: Fields, { namespace }: PeerContext): IsMeant {
  const wanted = fields["namespace"] ?? namespace;
  return (it) => wanted === undefined || it.namespace === wanted;
}

function peersOf(service: PolicyService, context: PeerContext): readonly Peer[] {
  const { selector, addresses, namespace } = service;
  if (selector === undefined)
    return (
      ofPrefixes(
        addresses.map((it) => prefixOf(it, bitsOf(familyOf(it)))),
        context,
      ) ?? []
    );
  const labels = Object.entries(selector).map(([key, value]) => isIn(podAttribute(key), value));
  return [podsPeer(peerSelector([...labels, isIn("namespace", namespace)], context.settings))];
}
