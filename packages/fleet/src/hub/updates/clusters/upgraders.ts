import type { KubeClient } from "@fairlead/kube/types.ts";
import type { UpdateRun } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { UpdateMember } from "#updates/clusters/fleet.ts";
import type { Observed } from "#updates/clusters/walk.ts";
import type { UpgradeOperation } from "#updates/engines/upgrader.ts";
import type { UpdateInformers } from "./informers.ts";
import { MailboxUpgrader } from "./mailbox.ts";

/** The engine of each member. */
export class Upgraders {
  readonly #mailbox: MailboxUpgrader;

  constructor(client: KubeClient, { clusterUpgrades }: Pick<UpdateInformers, "clusterUpgrades">) {
    this.#mailbox = new MailboxUpgrader(client, clusterUpgrades);
  }

  /** @returns Undefined if nothing is known yet. */
  async observe(
    member: UpdateMember | undefined,
    _operation: UpgradeOperation | undefined,
    signal: AbortSignal,
  ): Promise<Observed | undefined> {
    if (member?.upgrader === undefined) return undefined;
    return this.#mailbox.observe(member.name, member.upgrader, signal);
  }

  async start(
    member: UpdateMember | undefined,
    operation: UpgradeOperation,
    signal: AbortSignal,
  ): Promise<void> {
    if (member?.upgrader === undefined) return;
    await this.#mailbox.start(member.name, member.upgrader, operation, signal);
  }

  /** Engines that report nothing by themselves are looked at. */
  lookAgainInMs(_run: UpdateRun, _members: ReadonlyMap<string, UpdateMember>): number[] {
    return [];
  }
}
