import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  CLUSTER_UPGRADES,
  type ClusterUpgrade,
  type ClusterUpgradeStatus,
  type ComponentsPin,
  type FlowReport,
  type ProbeRequest,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { rollbackIdOf } from "#updates/clusters/failure.ts";
import type { ProbePlan } from "#updates/clusters/flows.ts";
import { isWithdrawn } from "#updates/engines/external.ts";
import { STOPPED_MESSAGE, type UpgradeOperation } from "#updates/engines/upgrader.ts";
import { isPinInForce } from "#domain/components.ts";
import { withComponents } from "#updates/clusters/components.ts";
import type { UpdateMember } from "#updates/clusters/fleet.ts";
import type { UpdateInformers } from "./informers.ts";

type Spec = ClusterUpgrade["spec"];
/** Fields that are absent stay as they are, and those that are undefined go. */
type SpecChange = { readonly [K in keyof Spec]?: Spec[K] | undefined };

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
  ): Promise<ClusterUpgradeStatus | undefined> {
    const current = this.#informer.store.get(keyOf(member));
    if (current?.spec.engine !== engine || (measure && current.spec.measure !== true)) {
      await this.#change(member, { engine, ...(measure ? { measure } : {}) }, signal);
      return undefined;
    }
    return current.status === undefined ? undefined : reportOf(current);
  }

  /** @throws `API_CONFLICT` while the member carries out another operation, but that whose rollback this is: it is stopped first. */
  async start(member: UpdateMember, operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    const { name, upgrader: engine = "" } = member;
    if (sameJson(this.#informer.store.get(keyOf(name))?.spec.operation, operation)) return;
    // Runs are decided on caches, which may not have what another run began just now.
    const current = await this.#client.find(CLUSTER_UPGRADES, keyOf(name), { signal });
    const other = current === undefined ? undefined : otherThan(operation, current);
    if (operation.stop === true && !isCurrent(operation, current)) return;
    if (other?.isBusy !== true) {
      requireFree(member, current, operation);
      return this.#change(name, { engine, operation }, signal);
    }
    if (operation.rollback !== true || operation.id !== rollbackIdOf(other.operation.id)) throw busy(name);
    await this.#change(name, { operation: { ...other.operation, stop: true } }, signal);
  }

  /** Pins the version of our programs in a member; another operation that pinned it has stopped then. One that is to stop leaves the version. @throws As `start`. */
  async pin(member: UpdateMember, operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    const { name, upgrader: engine = "", profile } = member;
    const { id, target, stop } = operation;
    const { componentsVersion: version } = target;
    const pin = this.pinOf(name);
    if (stop === true) {
      if (pin?.operation === id && pin.stopped !== true)
        await this.#change(name, { components: { ...pin, stopped: true } }, signal);
      return;
    }
    if (profile === undefined || version === undefined) return;
    if (pin?.operation === id && isPinInForce(pin, profile)) return;
    requireFree(member, await this.#client.find(CLUSTER_UPGRADES, keyOf(name), { signal }), operation);
    const components = {
      operation: id,
      version,
      profile: profile.name,
      ...defined({ over: profile.version }),
    };
    await this.#change(name, { engine, components }, signal);
  }

  pinOf(member: string): ComponentsPin | undefined {
    return this.#informer.store.get(keyOf(member))?.spec.components;
  }

  /** Ends the measurements of a member whose run has ended. */
  async rest(member: string, signal: AbortSignal): Promise<void> {
    if (this.#informer.store.get(keyOf(member))?.spec.measure === true)
      await this.#change(member, { measure: undefined }, signal);
  }

  /** Asks members to probe others as planned, and no others. */
  async probe(plan: ProbePlan, signal: AbortSignal): Promise<void> {
    const asked = [...this.#informer.store.list()].flatMap((it) =>
      it.spec.probes === undefined ? [] : [it.metadata.name],
    );
    for (const member of new Set([...asked, ...plan.keys()])) {
      const probes = plan.get(member)?.map((it) => structuredClone(it));
      const current = this.#informer.store.get(keyOf(member))?.spec.probes;
      if (!sameJson(current, probes)) await this.#change(member, { probes }, signal);
    }
  }

  /** What a member has found, if it was asked. */
  flows(prober: string, { cluster, since }: ProbeRequest): FlowReport | undefined {
    const { spec, status } = this.#informer.store.get(keyOf(prober)) ?? {};
    const isAsked = spec?.probes?.some((it) => it.cluster === cluster && it.since === since) === true;
    return isAsked ? status?.flows?.find((it) => it.cluster === cluster && it.since === since) : undefined;
  }

  /**
   * The spec is applied as a whole: to the newest one, since caches lag behind the last write of this pass. What is written at the
   * same time stays: a conflict, after which the pass is repeated.
   */
  async #change(member: string, change: SpecChange, signal: AbortSignal): Promise<void> {
    const current = await this.#client.find(CLUSTER_UPGRADES, keyOf(member), { signal });
    if (current === undefined && change.probes === undefined && change.engine === undefined) return;
    const { engine = "", ...others } = { ...current?.spec, ...change };
    const spec: Spec = { engine, ...defined(others) };
    const read = defined({ resourceVersion: current?.metadata.resourceVersion });
    await applyIfChanged(this.#client, CLUSTER_UPGRADES, {
      current,
      desired: { metadata: { namespace: mailboxOf(member), name: member, ...read }, spec },
      fieldManager: HUB_MANAGER,
      signal,
    });
  }
}

function isCurrent({ id }: UpgradeOperation, current: ClusterUpgrade | undefined): boolean {
  return current?.spec.operation?.id === id;
}

/** Another operation that a member has. */
function otherThan(
  { id }: UpgradeOperation,
  current: ClusterUpgrade,
): { readonly operation: UpgradeOperation; readonly isBusy: boolean } | undefined {
  const { operation } = current.spec;
  if (operation === undefined || operation.id === id) return undefined;
  return { operation, isBusy: reportOf(current).operation?.state === "Running" };
}

/** @throws `API_CONFLICT` while another upgrade of the member, of Kubernetes or of our programs, is in progress. */
function requireFree(
  member: UpdateMember,
  current: ClusterUpgrade | undefined,
  { id, stop }: UpgradeOperation,
): void {
  if (current === undefined || stop === true) return;
  const { operation } = withComponents(reportOf(current), member, current.spec.components, undefined);
  const isOther = operation !== undefined && id !== operation.id && id !== rollbackIdOf(operation.id);
  if (isOther && operation.state === "Running") throw busy(member.name);
}

function busy(member: string): FleetError {
  return new FleetError("API_CONFLICT", `member ${member} is being upgraded by another run`);
}

/** What a member reports, with an operation that it has not begun yet. */
function reportOf(upgrade: ClusterUpgrade): ClusterUpgradeStatus {
  const { spec, status = {} } = upgrade;
  const id = spec.operation?.id;
  if (id === undefined || status.operation?.id === id) return status;
  const operation = isWithdrawn(upgrade)
    ? ({ id, state: "Failed", message: STOPPED_MESSAGE } as const)
    : ({ id, state: "Running", message: "the member has not begun yet" } as const);
  return { ...status, operation };
}

function keyOf(member: string): ObjectKey {
  return objectKey(mailboxOf(member), member);
}
