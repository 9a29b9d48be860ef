import type { IdentitySlice, IdentityWants } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { RELEASED_AT_ANNOTATION } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { allowedExporters } from "#domain/audience.ts";
import { type IdentityAge, identityAge } from "#domain/identity-age.ts";
import { addressChecks } from "#domain/identity-claims.ts";
import { readWants, wantedOf, type WantsReader } from "#domain/identity-wants.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { currentMembers, type HubInformers } from "../informers.ts";
import { type IdentityPlan, planIdentity } from "./plan.ts";

type Checks = ReturnType<typeof addressChecks>;

interface Wanted {
  readonly wants: IdentityWants;
  readonly reader: WantsReader;
}

/** What the hub knows of the identities of members, remembered until something of it changes. */
export class IdentityRegistry {
  readonly #informers: HubInformers;
  readonly #now: () => number;
  readonly #checks = new Map<string, Checks>();
  readonly #wanted = new Map<string, Wanted>();

  constructor(informers: HubInformers, now: () => number) {
    this.#informers = informers;
    this.#now = now;
  }

  /** Addresses belong to other members now, perhaps. */
  forgetAddresses(): void {
    this.#checks.clear();
  }

  /** @returns The members of which others need to know something else now. */
  forgetDemands(): string[] {
    const before = [...this.#wanted];
    this.#wanted.clear();
    return before.flatMap(([cluster, { wants }]) =>
      sameJson(wants, this.wantedOf(cluster).wants) ? [] : [cluster],
    );
  }

  /** What the other members of its network need to know of a member. */
  wantedOf(cluster: string): Wanted {
    const known = this.#wanted.get(cluster);
    if (known !== undefined) return known;
    const view = this.#informers.viewOf(cluster);
    const members = currentMembers(this.#informers);
    const demands = new Map(
      [...this.#informers.identityDemands.store.list()].flatMap(({ metadata: { namespace, name }, spec }) =>
        clusterOfMailbox(namespace) === name && members.has(name) && this.#informers.viewOf(name) === view
          ? [[name, spec] as const]
          : [],
      ),
    );
    const wants = wantedOf(cluster, demands);
    const wanted = { wants, reader: readWants(wants) };
    this.#wanted.set(cluster, wanted);
    return wanted;
  }

  plan(slice: IdentitySlice): IdentityPlan {
    const cluster = clusterOfMailbox(slice.metadata.namespace) ?? "";
    const { namespace } = slice.spec;
    const view = this.#informers.viewOf(cluster);
    return planIdentity({
      slice,
      isMember: currentMembers(this.#informers).has(cluster),
      isForgotten: this.ageOf(cluster).isForgotten,
      exporters: allowedExporters(
        namespace === undefined
          ? undefined
          : this.#informers.namespaces.store.get(objectKey(undefined, namespace)),
      ),
      wanted: this.wantedOf(cluster).reader,
      check: this.#checksIn(view)(cluster, slice.spec.type === "Nodes" ? "nodes" : "pods"),
    });
  }

  ageOf(cluster: string): IdentityAge {
    return identityAge(this.#informers.members.store.get(objectKey(undefined, cluster)), this.#now());
  }

  #checksIn(view: string): Checks {
    const known = this.#checks.get(view);
    if (known !== undefined) return known;
    const { members, blocks } = this.#informers;
    const claimants = [...members.store.list()]
      .filter((it) => !isDeleting(it) && this.#informers.viewOf(it.metadata.name) === view)
      .map((member) => {
        const block = blocks.store.get(objectKey(view, member.metadata.name));
        if (block === undefined || block.metadata.annotations?.[RELEASED_AT_ANNOTATION] !== undefined)
          return { member };
        const { ipv4, ipv6, transition } = block.spec;
        return {
          member,
          block: { prefixes: [...ipv4, ...ipv6], hasPodAddresses: transition !== undefined },
        };
      });
    const checks = addressChecks(claimants);
    this.#checks.set(view, checks);
    return checks;
  }

  slicesOf(cluster: string): IdentitySlice[] {
    return [...this.#informers.identitySlices.store.byIndex("in", mailboxOf(cluster))];
  }
}
