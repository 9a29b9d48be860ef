import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { findGatewayProblem, isFleetAddress } from "#domain/gateway.ts";
import { type CandidateCheck, type JudgedCandidates, judgeCandidates } from "#domain/gateway-candidates.ts";
import { byAge } from "#domain/mesh-members.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";

/** Which gateways members show to each other. Pure. */

export interface GatewaysView {
  /** Those in mailboxes of members of parallel networks, by the names that a gateway may have there. */
  readonly reported: readonly Gateway[];
  /** What is shown now, by name. */
  readonly shown: ReadonlyMap<string, Gateway>;
  /** The prefixes of a member's network. */
  readonly networkOf: (cluster: string) => readonly Prefix[];
  readonly checkOf: (cluster: string, network: readonly Prefix[]) => CandidateCheck;
}

export interface GatewaysPlan {
  readonly shown: readonly { readonly name: string; readonly spec: Gateway["spec"] }[];
  /** For their owners. */
  readonly verdicts: readonly { readonly gateway: Gateway; readonly condition: NewCondition }[];
}

/** Ports of a relay. */
const MAX_GATEWAYS = 1024;

export function planGateways({ reported, shown, networkOf, checkOf }: GatewaysView): GatewaysPlan {
  const ordered = reported.toSorted(byAge);
  const problems = new Map(ordered.map((it) => [it, findGatewayProblem(it, ownerOf(it))] as const));
  const valid = ordered.filter((it) => problems.get(it) === undefined);
  const keys = ownersOfKeys(valid, shown);
  const indexes = new Indexes(valid, shown);
  const result: { name: string; spec: Gateway["spec"] }[] = [];
  const verdicts = ordered.map((gateway) => {
    const problem = problems.get(gateway);
    if (problem !== undefined) return { gateway, condition: refused("InvalidGateway", problem) };
    const { name } = gateway.metadata;
    const twin = gateway.spec.keys?.find((it) => keys.get(it.publicKey) !== name);
    if (twin !== undefined)
      return {
        gateway,
        condition: refused(
          "DuplicateKey",
          `gateway ${keys.get(twin.publicKey)} has the same key for its epoch ${twin.epoch}: nodes must not share keys; remove the key of this node, so that it makes another`,
        ),
      };
    const index = indexes.of(name);
    if (index === undefined)
      return { gateway, condition: refused("NoIndex", `the hub has ${MAX_GATEWAYS} gateways already`) };
    const network = networkOf(ownerOf(gateway));
    const judged = judgeCandidates(gateway.spec.candidates ?? [], checkOf(ownerOf(gateway), network));
    const { usable: candidates } = judged;
    result.push({ name, spec: { ...describe(gateway.spec, network), candidates, index } });
    return { gateway, condition: accepted(judged) };
  });
  return { shown: result, verdicts };
}

function ownerOf({ metadata }: Gateway): string {
  return clusterOfMailbox(metadata.namespace) ?? "";
}

/** The first gateway with a key has it: the one that is shown with it, then the older object. */
function ownersOfKeys(
  valid: readonly Gateway[],
  shown: ReadonlyMap<string, Gateway>,
): ReadonlyMap<string, string> {
  const owners = new Map<string, string>();
  const claim = (isShown: boolean): void => {
    for (const { metadata, spec } of valid) {
      const before = new Set(shown.get(metadata.name)?.spec.keys?.map((it) => it.publicKey));
      for (const { publicKey } of spec.keys ?? [])
        if (before.has(publicKey) === isShown && !owners.has(publicKey)) owners.set(publicKey, metadata.name);
    }
  };
  claim(true);
  claim(false);
  return owners;
}

/** Small numbers, each of one gateway, that stay. */
class Indexes {
  readonly #byName = new Map<string, number>();
  readonly #taken = new Set<number>();

  constructor(valid: readonly Gateway[], shown: ReadonlyMap<string, Gateway>) {
    for (const { metadata } of valid) {
      const index = shown.get(metadata.name)?.spec.index;
      const isFree = index !== undefined && isIndex(index) && !this.#taken.has(index);
      if (isFree) this.#give(metadata.name, index);
    }
  }

  #give(name: string, index: number): void {
    this.#byName.set(name, index);
    this.#taken.add(index);
  }

  of(name: string): number | undefined {
    for (let index = 0; !this.#byName.has(name) && index < MAX_GATEWAYS; index += 1)
      if (!this.#taken.has(index)) this.#give(name, index);
    return this.#byName.get(name);
  }
}

function isIndex(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value < MAX_GATEWAYS;
}

function describe(spec: Gateway["spec"], network: readonly Prefix[]): Gateway["spec"] {
  const { cluster, ordinal, node, keys = [], basePort, fleetAddress } = spec;
  return {
    cluster,
    ordinal,
    node,
    keys: keys.map(({ epoch, publicKey }) => ({ epoch, publicKey })).toSorted((a, b) => a.epoch - b.epoch),
    ...(basePort === undefined ? {} : { basePort }),
    ...(isFleetAddress(fleetAddress, network) ? { fleetAddress } : {}),
  };
}

function accepted({ usable, faults }: JudgedCandidates): NewCondition {
  const all = usable.length + faults.length;
  const rest =
    faults.length === 0 ? "" : `; ${faults.length} of ${all} candidates cannot be used: ${faults.join(", ")}`;
  return { type: "Accepted", status: "True", reason: "Accepted", message: `other members see it${rest}` };
}

function refused(reason: string, message: string): NewCondition {
  return { type: "Accepted", status: "False", reason, message };
}
