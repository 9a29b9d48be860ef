import { type ServiceKey } from "#domain/keys.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { Change } from "@fairlead/kube/types.ts";
import { planOf as planOfSlice, sourceOf } from "./endpoints/controller.ts";
import { type HubInformers, serviceOfImported } from "./informers.ts";
import { planOf as planOfService } from "./services/reconcile.ts";

/**
 * Returns the name of an object that a member has in its mailbox, and that its view is to hold but does not hold yet.
 * Undefined if the member finds in the view all that it is to find there.
 */
export function lackingInView(informers: HubInformers, cluster: string): string | undefined {
  const { importedServices, sliceImports } = informers;
  const view = informers.viewOf(cluster);
  const mailbox = mailboxOf(cluster);
  for (const it of importedServices.store.byIndex("in", mailbox)) {
    const { name } = it.metadata;
    if (importedServices.store.get(objectKey(view, name)) === undefined)
      if (isServiceFor(informers, view, serviceOfImported(it))) return name;
  }
  for (const { metadata } of sliceImports.store.byIndex("in", mailbox)) {
    const { name } = metadata;
    if (sliceImports.store.get(objectKey(view, name)) === undefined)
      if (isSliceFor(informers, view, name)) return name;
  }
  return undefined;
}

function isServiceFor(informers: HubInformers, view: string, key: ServiceKey): boolean {
  return planOfService(informers, key).audiences.get(view)?.everyone !== undefined;
}

function isSliceFor(informers: HubInformers, view: string, name: string): boolean {
  const source = sourceOf(informers, name);
  if (source === undefined) return false;
  const plan = planOfSlice(informers, source);
  const exporter = clusterOfMailbox(source.metadata.namespace) ?? "";
  return plan.act === "distribute" && plan.isInView && informers.viewOf(exporter) === view;
}

/** The members that cannot read their view yet, each with the name of an object that the view lacks. */
export class ViewWaits {
  readonly #lacking = new Map<ObjectKey, string>();

  note(member: ObjectKey, lacking: string | undefined): void {
    if (lacking === undefined) this.#lacking.delete(member);
    else this.#lacking.set(member, lacking);
  }

  /** Members that wait for an object of this name: their view has it now, or their mailbox no longer does. */
  waitingFor({ before, after }: Change<KubeObject>): ObjectKey[] {
    const name = (after ?? before)?.metadata.name;
    return [...this.#lacking].flatMap(([member, it]) => (it === name ? [member] : []));
  }
}
