import type { Fields } from "@fairlead/base/fields.ts";
import type { Peer, Way } from "../model.ts";
import { cidrPeer, fqdnPeer, nodesPeer, podsPeer } from "../peers.ts";
import type { Requirement } from "../selector.ts";
import { prefixOfPart } from "./cidrs.ts";
import { patternOf } from "./fqdn.ts";
import {
  type ClusterSettings,
  namespaceAttribute,
  nodeAttribute,
  peerSelector,
  podAttribute,
  requirementsOf,
} from "./labels.ts";
import { isPresent, open, type Part, partAt, partsAt, readAll, type Refuse, shown, textOf } from "./part.ts";

/** The peers of a ClusterNetworkPolicy. */

/** The requirements of `namespaces` or `pods`, exactly one of which is needed. */
export function selectedOf(fields: Fields, path: string, refuse: Refuse): readonly Requirement[] | undefined {
  const namespaces = partAt(fields, path, "namespaces");
  const pods = partAt(fields, path, "pods");
  if ((namespaces === undefined) === (pods === undefined))
    return refuse(path, "Exactly one of namespaces and pods is needed.");
  if (namespaces !== undefined) return requirementsOf(namespaces, namespaceAttribute, refuse);
  const both = pods && open(pods, ["namespaceSelector", "podSelector"], refuse);
  if (pods === undefined || both === undefined) return undefined;
  const part = (name: string): Part => ({ path: `${pods.path}.${name}`, value: both[name] });
  const ofNamespaces = requirementsOf(part("namespaceSelector"), namespaceAttribute, refuse);
  const ofPods = requirementsOf(part("podSelector"), podAttribute, refuse);
  return ofNamespaces && ofPods && [...ofNamespaces, ...ofPods];
}

interface PeerContext {
  readonly isDenying: boolean;
  readonly refuse: Refuse;
  readonly settings: ClusterSettings;
}

const PEER_FIELDS: Readonly<Record<Way, readonly string[]>> = {
  ingress: ["namespaces", "pods"],
  egress: ["namespaces", "pods", "nodes", "networks", "domainNames"],
};

export function clusterPeers(part: Part, way: Way, context: PeerContext): readonly Peer[] | undefined {
  const { refuse } = context;
  const fields = open(part, PEER_FIELDS[way], refuse);
  if (fields === undefined) return undefined;
  const [name, ...others] = PEER_FIELDS[way].filter((it) => isPresent(fields[it]));
  if (others.length > 0 || name === undefined)
    return refuse(part.path, `Exactly one of ${PEER_FIELDS[way].join(", ")} is needed.`);
  return READERS[name]?.(fields, part.path, context);
}

type Reader = (fields: Fields, path: string, context: PeerContext) => readonly Peer[] | undefined;

const READERS: Readonly<Record<string, Reader>> = {
  namespaces: podsOf,
  pods: podsOf,
  nodes: nodesOf,
  networks: networksOf,
  domainNames: domainsOf,
};

function podsOf(
  fields: Fields,
  path: string,
  { refuse, settings }: PeerContext,
): readonly Peer[] | undefined {
  const requirements = selectedOf(fields, path, refuse);
  return requirements && [podsPeer(peerSelector(requirements, settings))];
}

function nodesOf(
  fields: Fields,
  path: string,
  { refuse, settings }: PeerContext,
): readonly Peer[] | undefined {
  const labels = requirementsOf({ path: `${path}.nodes`, value: fields["nodes"] }, nodeAttribute, refuse);
  return labels && [nodesPeer(peerSelector(labels, settings), false)];
}

function networksOf(
  fields: Fields,
  path: string,
  { isDenying, refuse }: PeerContext,
): readonly Peer[] | undefined {
  const parts = partsAt(fields, path, "networks") ?? [];
  const prefixes = readAll(parts, isDenying, (it) => prefixOfPart(it, refuse));
  const mode = { matchesPods: true, matchesNodes: true };
  return prefixes && (prefixes.length === 0 ? [] : [cidrPeer(prefixes, mode)]);
}

function domainsOf(
  fields: Fields,
  path: string,
  { isDenying, refuse }: PeerContext,
): readonly Peer[] | undefined {
  if (isDenying) return refuse(`${path}.domainNames`, "Names can be accepted only.");
  const parts = partsAt(fields, path, "domainNames") ?? [];
  return readAll(parts, false, (it) => domainOf(it, refuse))?.map((it) => fqdnPeer(it));
}

/** A leading `*.` is for one label or more, as the API has it. */
function domainOf(part: Part, refuse: Refuse): string | undefined {
  const text = textOf(part, refuse);
  if (text === undefined) return undefined;
  const [first = "", ...rest] = text.split(".");
  if (rest.join("").includes("*") || (first.includes("*") && (first !== "*" || rest.length < 1)))
    return refuse(part.path, `${shown(text)} is not a domain name; a "*" can be its first label only.`);
  return patternOf(part.path, first === "*" ? `**.${rest.join(".")}` : text, refuse);
}
