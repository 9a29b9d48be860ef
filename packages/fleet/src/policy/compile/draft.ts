import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { CiliumCidrGroup } from "#api/cilium.io/v2/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Compilation, CompiledPolicy, PolicyId, Refusal, Rule } from "../model.ts";
import { unitedPeers } from "../peers.ts";
import type { ClusterSettings } from "./labels.ts";
import { MAX_EXCEPTIONS_OF_POLICY } from "./exceptions.ts";
import type { Refuse } from "./part.ts";

/** What the compilers need besides the policy. */
export interface PolicySettings extends ClusterSettings {
  /** `policy-cidr-match-mode` of Cilium: whether CIDRs in its kinds match known pods and nodes. */
  readonly cidrMatchesPods: boolean;
  readonly cidrMatchesNodes: boolean;
}

/** A Service of the own cluster, as `toServices` needs it. */
export interface PolicyService {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Absent: the service has the addresses of its slices. */
  readonly selector?: Readonly<Record<string, string>>;
  readonly addresses: readonly IpAddress[];
}

/** Objects that policies refer to. `Compilation.reads` says which of them a policy was compiled with. */
export interface PolicyObjects {
  readonly cidrGroups: readonly CiliumCidrGroup[];
  readonly services: readonly PolicyService[];
}

/** Collects what is refused while an object is compiled. */
export class Draft {
  readonly id: PolicyId;
  readonly refusals: Refusal[] = [];
  readonly reads = { cidrGroups: false, services: false };
  /** Exceptions of CIDRs that the policy may have besides those that were read. */
  exceptionsLeft = MAX_EXCEPTIONS_OF_POLICY;
  constructor(kind: string, { metadata }: KubeObject) {
    const { name, namespace } = metadata;
    this.id = { kind, name, ...(namespace === undefined ? {} : { namespace }) };
  }
  refuse(effect: Refusal["effect"]): Refuse {
    return (field, reason) => {
      this.refusals.push({ field, reason, effect });
      return undefined;
    };
  }
  /** For the parts of a rule with this action. */
  forRule(action: Rule["action"]): Refuse {
    return this.refuse(action === "allow" ? "matches nothing" : "denies more");
  }
  done(policies: readonly CompiledPolicy[]): Compilation {
    return { id: this.id, policies, refusals: this.refusals, reads: this.reads };
  }
}

export function policyKey({ kind, namespace, name }: PolicyId): string {
  return [kind, ...(namespace === undefined ? [] : [namespace]), name].join("/");
}

/**
 * A rule of what could be read. Undefined peers or ports were refused: an allowing rule then allows nothing, another one denies everything
 * that the rest of it matches.
 */
export function ruleOf(
  action: Rule["action"],
  origin: string,
  { peers, ports }: { readonly peers: Rule["peers"] | undefined; readonly ports: Rule["ports"] | undefined },
): Rule | undefined {
  if (peers !== undefined && ports !== undefined)
    return { action, peers: peers === "any" ? peers : unitedPeers(peers), ports, origin };
  if (action === "allow") return undefined;
  const left = peers === undefined || peers === "any" ? "any" : unitedPeers(peers);
  return { action: "deny", peers: left, ports: ports ?? "any", origin };
}
