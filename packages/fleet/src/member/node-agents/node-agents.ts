import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { NODE_AGENTS, NODE_AGENTS_SELECTOR } from "#api/fairlead.dev/node-agents.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { isOwn, nodeDaemonSet, type WantedAgents } from "#domain/node-daemon-set.ts";
import { isReady } from "#domain/pods.ts";
import { VERSION } from "@fairlead/base/version.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { DAEMON_SETS, type DaemonSet } from "@fairlead/kube/api/apps/v1/types.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Controller, Informer, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import type { MeshInformers } from "../fleet-addresses.ts";
import { isMembershipChanged, membershipOf, type Session } from "../session.ts";
import {
  type AgentsInstall,
  type AgentsPlan,
  describeAgents,
  describeOwn,
  failed,
  planAgents,
} from "./plan.ts";
import { upgradeDns, upgradeOwn } from "./programs.ts";

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, NODE_AGENTS);

/** Until pods are ready, their states are read so often. Unit: milliseconds. */
const LOOK_MS = 10_000;

/** Installs `fairlead node` in the version that the profile of the cluster names, and removes it when the cluster has left the network. */
export class NodeAgents {
  readonly daemonSets: Informer<DaemonSet>;
  readonly #install: AgentsInstall;
  #condition: NewCondition | undefined;
  #isKnown = false;
  /** Called when there is something else to report. */
  onReport: () => void = () => {};

  constructor(local: KubeClient, install: AgentsInstall, deps: RuntimeDeps) {
    const options = {
      namespace: FLEET_SYSTEM_NAMESPACE,
      labelSelector: NODE_AGENTS_SELECTOR,
      fieldManager: MEMBER_MANAGER,
    };
    this.daemonSets = createInformer(local, DAEMON_SETS, options, deps);
    this.#install = install;
  }

  /** Whether the agents were looked at since the program began. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** How the agents are, for the hub. Undefined: there is nothing to say. */
  get condition(): NewCondition | undefined {
    return this.#condition;
  }

  /** Whether a DaemonSet of this cluster's agent is there. */
  get areInstalled(): boolean {
    return [...this.daemonSets.store.list()].some((it) => isOwn(it));
  }

  controller(session: Session, mesh: MeshInformers): Controller {
    const always = (): ObjectKey[] => [KEY];
    return createController(
      {
        name: "member-node-agents",
        reconcile: (_key, signal) => this.#reconcile(session, mesh, signal),
        concurrency: 1,
        sources: [
          watching(this.daemonSets, always),
          watching(mesh.networks, always),
          watching(session.mailbox.internalMembers, (change) =>
            isMembershipChanged(change) ? always() : [],
          ),
        ],
      },
      session.deps,
    );
  }

  async #reconcile(
    session: Session,
    { networks }: MeshInformers,
    signal: AbortSignal,
  ): Promise<ReconcileResult | void> {
    const [network] = networks.store.list();
    const plan = planAgents({
      isInNetwork: network !== undefined && membershipOf(session) !== "leave",
      version: network?.spec.version,
      ...this.#install,
      daemonSets: [...this.daemonSets.store.list()],
    });
    try {
      return await this.#carryOut(session, plan, signal);
    } catch (error) {
      if (hasCode(error, "API_FORBIDDEN")) this.#report(failed("NotPermitted", NOT_PERMITTED));
      throw error;
    }
  }

  async #carryOut(
    { local, events }: Session,
    plan: AgentsPlan,
    signal: AbortSignal,
  ): Promise<ReconcileResult | void> {
    if (plan.step === "delete") await local.delete(DAEMON_SETS, KEY, { signal });
    if (plan.step !== "apply") return this.#report(plan.step === "nothing" ? plan.condition : undefined);
    const current = [...this.daemonSets.store.list()].find((it) => isOwn(it));
    await applyIfChanged(local, DAEMON_SETS, {
      current,
      desired: nodeDaemonSet(plan.wanted),
      fieldManager: MEMBER_MANAGER,
      events,
      signal,
    });
    if (!plan.wanted.isRemoving) await upgradeDns(local, plan.wanted.image, signal);
    return this.#follow(local, current, plan.wanted, signal);
  }

  async #follow(
    local: KubeClient,
    current: DaemonSet | undefined,
    wanted: WantedAgents,
    signal: AbortSignal,
  ): Promise<ReconcileResult | void> {
    const soon = describeAgents(current, wanted, []);
    if (soon.status !== "True") {
      this.#report(describeAgents(current, wanted, await unreadyPods(local, signal)));
      return { requeueAfterMs: LOOK_MS };
    }
    // The last one: a copy of this program that has been replaced reports nothing any more.
    const own = await upgradeOwn(local, { image: wanted.image, version: VERSION }, signal);
    this.#report(own.lacking === undefined ? soon : describeOwn(wanted, own.lacking, own.problems));
    return own.lacking === undefined ? undefined : { requeueAfterMs: LOOK_MS };
  }

  #report(condition: NewCondition | undefined): void {
    if (this.#isKnown && sameJson(condition, this.#condition)) return;
    this.#isKnown = true;
    this.#condition = condition;
    this.onReport();
  }
}

const NOT_PERMITTED =
  'the agent may not install fairlead node, or not upgrade fairlead dns: run "fairlead join" with --node-agents again, or set nodes.install of the chart fairlead-member';

async function unreadyPods(local: KubeClient, signal: AbortSignal): Promise<Pod[]> {
  const options = { namespace: FLEET_SYSTEM_NAMESPACE, labelSelector: NODE_AGENTS_SELECTOR, signal };
  const { items } = await local.list(PODS, options);
  return items.filter((it) => !isReady(it));
}
