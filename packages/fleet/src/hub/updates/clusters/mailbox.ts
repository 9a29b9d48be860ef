import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { CLUSTER_UPGRADES, type ClusterUpgrade } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { UpgradeOperation } from "#updates/engines/upgrader.ts";
import type { Observed } from "#updates/clusters/walk.ts";
import type { UpdateInformers } from "./informers.ts";

/**
 * Upgrades members by engines that run in them: the hub has no way into members, so it writes into their mailboxes what to do,
 * and they write how it is.
 */
export class MailboxUpgrader {
  readonly #client: KubeClient;
  readonly #informer: UpdateInformers["clusterUpgrades"];

  constructor(client: KubeClient, informer: UpdateInformers["clusterUpgrades"]) {
    this.#client = client;
    this.#informer = informer;
  }

  /** Asks for a report if the member was never asked. */
  async observe(
    member: string,
    { engine, measure }: { readonly engine: string; readonly measure: boolean },
    signal: AbortSignal,
  ): Promise<Observed | undefined> {
    const current = this.#informer.store.get(keyOf(member));
    if (current?.spec.engine !== engine || (measure && current.spec.measure !== true)) {
      await this.#write(
        member,
        { engine, ...defined({ operation: current?.spec.operation }), ...(measure ? { measure } : {}) },
        current,
        signal,
      );
      return undefined;
    }
    const { status, spec } = current;
    const { operation } = spec;
    if (status === undefined || operation === undefined || status.operation?.id === operation.id)
      return status;
    return {
      ...status,
      operation: { id: operation.id, state: "Running", message: "the member has not begun yet" },
    };
  }

  /** @throws `API_CONFLICT` while the member carries out another operation. */
  async start(
    member: string,
    engine: string,
    operation: UpgradeOperation,
    signal: AbortSignal,
  ): Promise<void> {
    if (this.#informer.store.get(keyOf(member))?.spec.operation?.id === operation.id) return;
    // Runs are decided on caches, which may not have what another run began just now.
    const current = await this.#client.find(CLUSTER_UPGRADES, keyOf(member), { signal });
    if (current !== undefined && current.spec.operation?.id !== operation.id && isBusy(current))
      throw new FleetError("API_CONFLICT", `member ${member} is being upgraded by another run`);
    const measure = current?.spec.measure === true ? { measure: true } : {};
    await this.#write(member, { engine, operation, ...measure }, current, signal);
  }

  /** Ends the measurements of a member whose run has ended. */
  async rest(member: string, signal: AbortSignal): Promise<void> {
    const current = this.#informer.store.get(keyOf(member));
    if (current?.spec.measure !== true) return;
    const { engine, operation } = current.spec;
    await this.#write(member, { engine, ...defined({ operation }) }, current, signal);
  }

  async #write(
    member: string,
    spec: ClusterUpgrade["spec"],
    current: ClusterUpgrade | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const desired = { metadata: { namespace: mailboxOf(member), name: member }, spec };
    await applyIfChanged(this.#client, CLUSTER_UPGRADES, {
      current,
      desired,
      fieldManager: HUB_MANAGER,
      signal,
    });
  }
}

function isBusy({ spec: { operation }, status }: ClusterUpgrade): boolean {
  if (operation === undefined) return false;
  return status?.operation?.id !== operation.id || status.operation.state === "Running";
}

function keyOf(member: string) {
  return objectKey(mailboxOf(member), member);
}
