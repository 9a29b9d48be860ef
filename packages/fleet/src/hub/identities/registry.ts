import type { IdentitySlice, IdentityWants } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { RELEASED_AT_ANNOTATION } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { allowedExporters } from "#domain/audience.ts";
import { type IdentityAge, identityAge } from "#domain/identity-age.ts";
import { addressChecks, claimantOf } from "#domain/identity-claims.ts";
import { readWants, type WantsReader } from "#domain/identity-wants.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { currentMembers, type HubInformers } from "../informers.ts";
import { DemandIndex } from "./demand-index.ts";
import { type IdentityPlan, planIdentity } from "./plan.ts";

type Checks = ReturnType<typeof addressChecks>;

interface Wanted {
  readonly wants: IdentityWants;
  readonly reader: WantsReader;
}

const NOTHING: IdentityWants = { requests: [] };

/** What the hub knows of the identities of members, remembered until something of it changes. */
export class IdentityRegistry {
  readonly #informers: HubInformers;
  readonly #now: () => number;
  readonly #checks = new Map<string, Checks>();
  readonly #wanted = new Map<string, Wanted>();
  /** Demands by view; undefined: members may be in other views now. */
  #demands: Map<string, DemandIndex> | undefined;
  /** Members whose demand changed. */
  readonly #due = new Set<string>();
  /** What was wanted of members of which something else may be wanted now. */
  readonly #before = new Map<string, IdentityWants>();

  constructor(informers: HubInformers, now: () => number) {
    this.#informers = informers;
    this.#now = now;
  }

  /** Members, their networks or their addresses changed: nothing is remembered. */
  forgetAll(): void {
    this.#checks.clear();
    this.#wanted.clear();
    this.#demands = undefined;
    this.#due.clear();
    this.#before.clear();
  }

  /** The demand of a member changed. It is read when it is needed, however often it changes until then. */
  forgetDemand(member: string): void {
    this.#due.add(member);
  }

  /** @returns The members of which others need to know something else now, since the last call. */
  takeChanged(): string[] {
    this.#readDemands();
    const before = [...this.#before];
    this.#before.clear();
    return before.flatMap(([cluster, wants]) =>
      sameJson(wants, this.wantedOf(cluster).wants) ? [] : [cluster],
    );
  }

  #readDemands(): Map<string, DemandIndex> {
    const due = this.#demands === undefined ? this.#all() : this.#due;
    const demands = (this.#demands ??= new Map<string, DemandIndex>());
    const members = currentMembers(this.#informers);
    for (const member of due) {
      const view = this.#informers.viewOf(member);
      const index = demands.get(view) ?? new DemandIndex();
      demands.set(view, index);
      const demand = this.#informers.identityDemands.store.get(objectKey(mailboxOf(member), member));
      const isChanged = index.set(member, members.has(member) ? demand?.spec : undefined);
      for (const [cluster, { wants }] of this.#wanted) {
        if (!isChanged(cluster) || this.#informers.viewOf(cluster) !== view) continue;
        this.#wanted.delete(cluster);
        if (!this.#before.has(cluster)) this.#before.set(cluster, wants);
      }
    }
    this.#due.clear();
    return demands;
  }

  #all(): string[] {
    return [...this.#informers.identityDemands.store.list()].flatMap(({ metadata: { namespace, name } }) =>
      clusterOfMailbox(namespace) === name ? [name] : [],
    );
  }

  /** What the other members of its network need to know of a member. */
  wantedOf(cluster: string): Wanted {
    const demands = this.#readDemands();
    const known = this.#wanted.get(cluster);
    if (known !== undefined) return known;
    const wants = demands.get(this.#informers.viewOf(cluster))?.wantsOf(cluster) ?? NOTHING;
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
        const isReleased = block?.metadata.annotations?.[RELEASED_AT_ANNOTATION] !== undefined;
        return claimantOf(member, isReleased ? undefined : block?.spec);
      });
    const checks = addressChecks(claimants);
    this.#checks.set(view, checks);
    return checks;
  }

  slicesOf(cluster: string): IdentitySlice[] {
    return [...this.#informers.identitySlices.store.byIndex("in", mailboxOf(cluster))];
  }
}
