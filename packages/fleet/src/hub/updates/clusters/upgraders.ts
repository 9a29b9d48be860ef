import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { UpdateMember } from "#updates/clusters/fleet.ts";
import type { Observed } from "#updates/clusters/walk.ts";
import { ClusterApiUpgrader } from "#updates/engines/cluster-api.ts";
import type { ClusterUpgrader, UpgradeOperation } from "#updates/engines/upgrader.ts";
import type { UpdateInformers } from "./informers.ts";
import { MailboxUpgrader } from "./mailbox.ts";

/** Engines that the hub asks itself are looked at so often while they upgrade. Unit: milliseconds. */
const LOOK_MS = 15_000;

/** The engine of each member: on the hub, or in the member, which is asked by its mailbox. */
export class Upgraders {
  readonly #client: KubeClient;
  readonly #mailbox: MailboxUpgrader;
  /** Operations that an engine on the hub cannot carry out, with the reason: by member and operation. */
  readonly #refused = new Map<string, string>();

  constructor(client: KubeClient, { clusterUpgrades }: Pick<UpdateInformers, "clusterUpgrades">) {
    this.#client = client;
    this.#mailbox = new MailboxUpgrader(client, clusterUpgrades);
  }

  /** @returns Undefined if nothing is known yet. */
  async observe(
    member: UpdateMember | undefined,
    operation: UpgradeOperation | undefined,
    signal: AbortSignal,
  ): Promise<Observed | undefined> {
    if (member?.upgrader === undefined) return undefined;
    const here = this.#engineHere(member.upgrader);
    if (here === undefined) return this.#mailbox.observe(member.name, member.upgrader, signal);
    try {
      const observed = await here.observe(operation, signal);
      const message = this.#refused.get(keyOf(member, operation));
      if (operation === undefined || message === undefined) return observed;
      return { ...observed, operation: { id: operation.id, state: "Failed", message } };
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
    if (member?.upgrader === undefined) return Infinity;
    const here = this.#engineHere(member.upgrader);
    if (here === undefined) {
      await this.#mailbox.start(member.name, member.upgrader, operation, signal);
      return Infinity;
    }
    try {
      await here.start(operation, signal);
      return LOOK_MS;
    } catch (error) {
      if (!hasCode(error, "PRECONDITION_FAILED")) throw error;
      this.#refused.set(keyOf(member, operation), messageOf(error));
      return 0;
    }
  }

  #engineHere(engine: string): ClusterUpgrader | undefined {
    const [kind, cluster = ""] = engine.split(":");
    return kind === "ClusterAPI" ? new ClusterApiUpgrader(this.#client, cluster) : undefined;
  }
}

function keyOf({ name }: UpdateMember, operation: UpgradeOperation | undefined): string {
  return `${name} ${operation?.id ?? ""}`;
}
