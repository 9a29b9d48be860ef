import { defined } from "@fairlead/base/defined.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { ClusterUpgradeStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { ProbeFleet, ProbePlan } from "#updates/clusters/flows.ts";
import type { UpdateMember } from "#updates/clusters/fleet.ts";
import { withComponents } from "#updates/clusters/components.ts";
import { isKnown, type Observed } from "#updates/clusters/walk.ts";
import type { UpgradeOperation } from "#updates/engines/upgrader.ts";
import { isClusterApi, openClusterApi, type UpgraderParts } from "./management-cluster.ts";
import type { UpdateInformers } from "./informers.ts";
import { MailboxUpgrader } from "./mailbox.ts";

/** Engines that the hub asks itself are looked at so often while they upgrade. Unit: milliseconds. */
const LOOK_MS = 15_000;

/** Of a member that has none: it only reports, and our own programs are upgraded. */
const NO_ENGINE = "";

/** The engine of each member: on the hub, or in the member, which is asked by its mailbox. */
export class Upgraders {
  readonly #parts: UpgraderParts;
  readonly #mailbox: MailboxUpgrader;
  /** The last operation of each member that an engine on the hub could not carry out, with the reason. */
  readonly #refused = new Map<string, { readonly id: string; readonly message: string }>();

  constructor(parts: UpgraderParts, { clusterUpgrades }: Pick<UpdateInformers, "clusterUpgrades">) {
    this.#parts = parts;
    this.#mailbox = new MailboxUpgrader(parts.client, clusterUpgrades);
  }

  /** @returns Undefined if nothing is known yet. */
  async observe(
    member: UpdateMember | undefined,
    { operation, measure = false }: { readonly operation?: UpgradeOperation; readonly measure?: boolean },
    signal: AbortSignal,
  ): Promise<Observed | undefined> {
    if (member === undefined) return undefined;
    const observed = await this.#observeCluster(member, { ...defined({ operation }), measure }, signal);
    if (!isKnown(observed)) return observed;
    return withComponents(observed, member, this.#mailbox.pinOf(member.name), operation?.id);
  }

  async #observeCluster(
    member: UpdateMember,
    { operation, measure }: { readonly operation?: UpgradeOperation; readonly measure: boolean },
    signal: AbortSignal,
  ): Promise<Observed | undefined> {
    const { name, upgrader: engine = NO_ENGINE } = member;
    if (!isClusterApi(engine)) return this.#mailbox.observe(name, { engine, measure }, signal);
    try {
      await using opened = await openClusterApi(this.#parts, engine, signal);
      const observed = await opened.upgrader.observe(operation, opened.signal);
      if (measure) Object.assign(observed, await this.#measurementsOf(name, engine, signal));
      const refused = this.#refused.get(name);
      if (operation === undefined || refused?.id !== operation.id) return observed;
      return { ...observed, operation: { ...refused, state: "Failed" } };
    } catch (error) {
      return { problem: `the state of the cluster cannot be read: ${messageOf(error)}` };
    }
  }

  /** @returns After how long the engine is to be looked at again; Infinity if it reports changes by itself. Unit: milliseconds. */
  async start(
    member: UpdateMember | undefined,
    operation: UpgradeOperation,
    signal: AbortSignal,
  ): Promise<number> {
    if (member === undefined) return Infinity;
    if (operation.target.type === "Components") {
      await this.#mailbox.pin(member, operation, signal);
      return Infinity;
    }
    if (member.upgrader === undefined) return Infinity;
    if (!isClusterApi(member.upgrader)) {
      await this.#mailbox.start(member, operation, signal);
      return Infinity;
    }
    try {
      await using opened = await openClusterApi(this.#parts, member.upgrader, signal);
      if (operation.stop === true) {
        await opened.upgrader.stop(operation, opened.signal);
        return Infinity;
      }
      await opened.upgrader.start(operation, opened.signal);
      return LOOK_MS;
    } catch (error) {
      if (!hasCode(error, "PRECONDITION_FAILED")) throw error;
      this.#refused.set(member.name, { id: operation.id, message: messageOf(error) });
      return 0;
    }
  }

  /** Of a cluster that is upgraded from here: its member measures it. */
  async #measurementsOf(
    name: string,
    engine: string,
    signal: AbortSignal,
  ): Promise<Pick<ClusterUpgradeStatus, "measurements">> {
    const reported = await this.#mailbox.observe(name, { engine, measure: true }, signal);
    return defined({ measurements: reported?.measurements });
  }

  /** What members find that are asked to probe others. */
  readonly report: ProbeFleet["report"] = (prober, request) => this.#mailbox.flows(prober, request);

  async probe(plan: ProbePlan, signal: AbortSignal): Promise<void> {
    await this.#mailbox.probe(plan, signal);
  }

  /** After a run. */
  forget(member: string): void {
    this.#refused.delete(member);
  }

  /** After a run that measured. */
  async rest(member: string, signal: AbortSignal): Promise<void> {
    await this.#mailbox.rest(member, signal);
  }
}
