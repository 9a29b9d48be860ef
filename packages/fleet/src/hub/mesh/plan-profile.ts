import { defined } from "@fairlead/base/defined.ts";
import { formatPrefix } from "@fairlead/base/netaddr/prefix.ts";
import {
  type ClusterMeshProfile,
  type FlatNetwork,
  MAX_MESH_MEMBERS,
  MAX_RELAY_BASE_PORT,
  type ParallelNetwork,
  type Relay,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { AddressPlan } from "#domain/address-plan.ts";
import type { Selected } from "#domain/mesh-members.ts";
import { isVersion } from "#api/fairlead.dev/node-agents.ts";
import { byNaturalText, byText } from "@fairlead/base/text.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { type PinOf, planNodeAgents } from "./plan-node-agents.ts";
import type { Epoch } from "./plan-epoch.ts";
import { describePairs, type Pair } from "./plan-paths.ts";
import { type AddressesPlan, areRoutable, listed } from "./plan-addresses.ts";

/** What a profile's members share, and its status. Pure. */

/** What members of a flat network receive. */
export function describeTerms({ spec }: ClusterMeshProfile): FlatNetwork {
  const { version, dataplane = "fairlead", policyCIDRMatchMode } = spec;
  return {
    mode: "flat",
    dataplane,
    defaultGlobalNamespace: spec.defaultGlobalNamespace ?? true,
    policyDefaultLocalCluster: spec.policyDefaultLocalCluster ?? true,
    ...defined({
      version: version !== undefined && isVersion(version) ? version : undefined,
      policyCIDRMatchMode,
    }),
  };
}

export function describeNetwork(
  profile: ClusterMeshProfile,
  { ipv4, ipv6, vipIPv4, vipIPv6 }: AddressPlan,
  keyEpoch: number,
  all: readonly Relay[],
): ParallelNetwork {
  // One of an older hub, which the CRD no longer permits, must not hold up the network.
  const relays = all.filter((it) => it.spec.basePort <= MAX_RELAY_BASE_PORT);
  const { network } = profile.spec;
  return {
    ...describeTerms(profile),
    mode: "parallel",
    ipv4: formatPrefix(ipv4),
    ipv6: formatPrefix(ipv6),
    vipIPv4: formatPrefix(vipIPv4),
    vipIPv6: formatPrefix(vipIPv6),
    keyEpoch,
    ...defined({ attach: network.attach }),
    ...(relays.length === 0
      ? {}
      : {
          relays: relays
            .map(({ metadata: { name }, spec: { addresses, basePort, publicKey, tlsPort } }) => ({
              name,
              addresses: [...addresses],
              basePort,
              publicKey,
              ...defined({ tlsPort }),
            }))
            .toSorted((a, b) => byText(a.name, b.name)),
        }),
  };
}

type Views = Pick<AddressesPlan, "plan" | "blocks" | "faults"> & { readonly unconnected: readonly Pair[] };

export function planProfileStatus(
  selected: Selected,
  network: Views,
  epoch: Epoch,
  pinOf?: PinOf,
): Omit<NonNullable<ClusterMeshProfile["status"]>, "conditions"> & { readonly conditions: NewCondition[] } {
  const { profile, members, elsewhere, beyond } = selected;
  const { plan } = network;
  const ofParallel =
    plan === undefined
      ? {}
      : {
          addresses: { ipv4: formatPrefix(plan.ipv4), ipv6: formatPrefix(plan.ipv6) },
          ...epoch,
        };
  const fault = faultOf(selected, network);
  const ready: NewCondition =
    fault === undefined
      ? {
          type: "Ready",
          status: "True",
          reason: "Ready",
          message: `${members.length} members${changedPrefixes(profile, plan)}`,
        }
      : { type: "Ready", status: "False", ...fault };
  const podAddresses = areRoutable(members) ? ("Distinct" as const) : ("Overlapping" as const);
  return {
    ...ofParallel,
    members: members.length,
    podAddresses,
    conditions: [
      ready,
      ...conflict(elsewhere),
      ...tooMany(beyond),
      ...planNodeAgents(profile, members, pinOf),
    ],
  };
}

/** Why a network is not ready. */
function faultOf(
  { profile, members, problem }: Selected,
  { blocks, faults, unconnected }: Views,
): Pick<NewCondition, "reason" | "message"> | undefined {
  if (problem !== undefined) return { reason: "InvalidProfile", message: problem };
  const [first] = faults;
  if (first !== undefined)
    return { reason: first.reason, message: listedFaults(faults.map((it) => it.message)) };
  const changing = describeTransitions(blocks);
  const after = changing === "" ? "" : `; ${changing}`;
  const has = new Set(blocks.map((it) => it.cluster));
  const waiting = members.map((it) => it.metadata.name).filter((it) => !has.has(it));
  if (profile.spec.network.mode === "parallel" && waiting.length > 0)
    return {
      reason: "WaitingForMembers",
      message: `waiting for "fairlead member" of ${listed(waiting)} to report${after}`,
    };
  if (unconnected.length > 0) return { reason: "NoPath", message: `${describePairs(unconnected)}${after}` };
  return changing === "" ? undefined : { reason: "ChangingMode", message: changing };
}

const PHASES = {
  prepare: "keep the addresses of pods until all members have fleet addresses and paths to each other",
  switch: "change the addresses of their endpoints to fleet addresses",
  leave: "change the addresses of their endpoints to those of pods",
} as const;

function describeTransitions(blocks: AddressesPlan["blocks"]): string {
  return Object.entries(PHASES)
    .flatMap(([phase, what]) => {
      const names = blocks.filter((it) => it.transition?.phase === phase).map((it) => it.cluster);
      return names.length === 0 ? [] : [`${listed(names.toSorted(byNaturalText))} ${what}`];
    })
    .join("; ");
}

function listedFaults(messages: readonly string[]): string {
  return messages.slice(0, 10).join("; ");
}

function changedPrefixes({ spec }: ClusterMeshProfile, plan: AddressPlan | undefined): string {
  const { ipv4, ipv6 } = spec.network.addresses ?? {};
  const isChanged =
    plan !== undefined &&
    ((ipv4 !== undefined && ipv4 !== formatPrefix(plan.ipv4)) ||
      (ipv6 !== undefined && ipv6 !== formatPrefix(plan.ipv6)));
  return isChanged
    ? "; status.addresses stay in use while members have blocks of them: move the members to another profile to change them"
    : "";
}

function tooMany(beyond: readonly string[]): NewCondition[] {
  if (beyond.length === 0) return [];
  const message = `a profile has at most ${MAX_MESH_MEMBERS} members; the youngest are left out: ${listed(beyond)}; move members to another profile`;
  return [{ type: "TooManyMembers", status: "True", reason: "LimitReached", message }];
}

function conflict(elsewhere: Selected["elsewhere"]): NewCondition[] {
  if (elsewhere.length === 0) return [];
  const all = elsewhere.map((it) => `${it.member} (${it.profile})`);
  return [
    {
      type: "Conflict",
      status: "True",
      reason: "SelectedByOlderProfile",
      message: `these members belong to other profiles, which were applied to them or are older: ${listed(all)}`,
    },
  ];
}
