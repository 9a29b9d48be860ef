import { CILIUM_CLUSTERWIDE_NETWORK_POLICIES, CILIUM_NETWORK_POLICIES } from "#api/cilium.io/v2/types.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import type { PolicyKind } from "#policy/compile/compile.ts";
import type { Compilation } from "#policy/model.ts";
import { validCondition } from "#policy/valid.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { CLUSTER_NETWORK_POLICIES } from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import { objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import type { Session } from "../session.ts";

type PolicyWithStatus = KubeObject & { status?: { conditions?: Condition[] } };

/** `Valid` is Cilium's name. */
const CILIUM_TYPE = "Valid";
const KINDS: ReadonlyMap<PolicyKind, { readonly of: Resource<PolicyWithStatus>; readonly type: string }> =
  new Map([
    ["CiliumNetworkPolicy", { of: CILIUM_NETWORK_POLICIES, type: CILIUM_TYPE }],
    ["CiliumClusterwideNetworkPolicy", { of: CILIUM_CLUSTERWIDE_NETWORK_POLICIES, type: CILIUM_TYPE }],
    ["ClusterNetworkPolicy", { of: CLUSTER_NETWORK_POLICIES, type: "fairlead.dev/Valid" }],
  ]);

const RESOURCES: Readonly<Record<PolicyKind, Resource>> = {
  NetworkPolicy: NETWORK_POLICIES,
  CiliumNetworkPolicy: CILIUM_NETWORK_POLICIES,
  CiliumClusterwideNetworkPolicy: CILIUM_CLUSTERWIDE_NETWORK_POLICIES,
  ClusterNetworkPolicy: CLUSTER_NETWORK_POLICIES,
};

interface Due {
  readonly of: Resource<PolicyWithStatus>;
  readonly object: PolicyWithStatus;
  readonly condition: NewCondition;
}

/**
 * Which parts of policies are not enforced, as the condition `Valid` of each. Where Cilium writes that, it is left to it. A policy that is too
 * large has an Event, too: NetworkPolicy has no status.
 */
export class PolicyConditions {
  readonly #session: Session;
  readonly #enqueue: (name: string) => void;
  readonly #due = new Map<string, Due>();

  /** @param enqueue - Called with the name of what is to be written. */
  constructor(session: Session, enqueue: (name: string) => void) {
    this.#session = session;
    this.#enqueue = enqueue;
  }

  compiled(kind: PolicyKind, object: PolicyWithStatus, compilation: Compilation): void {
    const closing = compilation.refusals.find((it) => it.effect === "pods closed");
    if (closing !== undefined)
      this.#session.events.record(RESOURCES[kind], object, {
        type: "Warning",
        reason: "PolicyTooLarge",
        message: `${closing.reason} The pods that it selects are closed in the directions that it names.`,
      });
    const known = KINDS.get(kind);
    if (known === undefined) return;
    const condition = { ...validCondition(compilation), type: known.type };
    if (isWritten(object, condition)) return;
    const name = `${kind}.${keyOf(object)}`.replace("/", ".");
    this.#due.set(name, { of: known.of, object, condition });
    this.#enqueue(name);
  }

  async write(name: string, signal: AbortSignal): Promise<void> {
    const due = this.#due.get(name);
    if (due === undefined) return;
    const { of, condition } = due;
    const { local, deps } = this.#session;
    const object = await local.find(of, keyOf(due.object), { signal });
    // A newer one is compiled soon.
    const isSame = object?.metadata.generation === due.object.metadata.generation;
    if (object !== undefined && isSame && !isOthers(object, condition.type))
      await writeConditions(local, of, {
        object,
        own: new Set([condition.type]),
        next: [condition],
        fieldManager: MEMBER_MANAGER,
        clock: deps.clock,
        signal,
      });
    if (this.#due.get(name) === due) this.#due.delete(name);
  }
}

function keyOf({ metadata }: KubeObject): ObjectKey {
  return objectKey(metadata.namespace, metadata.name);
}

function isWritten({ metadata, status }: PolicyWithStatus, wanted: NewCondition): boolean {
  const found = status?.conditions?.find((it) => it.type === wanted.type);
  return (
    found?.observedGeneration === metadata.generation &&
    found?.status === wanted.status &&
    found.reason === wanted.reason &&
    found.message === wanted.message
  );
}

/** Whether Cilium keeps the status. */
function isOthers({ metadata }: KubeObject, type: string): boolean {
  const isOther = metadata.managedFields?.some(
    (it) => it.subresource === "status" && it.manager !== MEMBER_MANAGER,
  );
  return type === CILIUM_TYPE && isOther === true;
}
