import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  type IdentityDemand,
  type IdentitySlice,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { identitySliceName } from "#domain/identity-slice.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";

export interface IdentitiesInformers {
  /** In mailboxes and views. */
  readonly identitySlices: Informer<IdentitySlice>;
  /** In mailboxes. */
  readonly identityDemands: Informer<IdentityDemand>;
}

export function createIdentitiesInformers(client: KubeClient, deps: RuntimeDeps): IdentitiesInformers {
  const fieldManager = HUB_MANAGER;
  const indexes = {
    in: ({ metadata }: IdentitySlice) => [metadata.namespace ?? ""],
    shown: (it: IdentitySlice) => [shownName(it)],
  };
  return {
    identitySlices: createInformer(client, IDENTITY_SLICES, { fieldManager, indexes }, deps),
    identityDemands: createInformer(client, IDENTITY_DEMANDS, { fieldManager }, deps),
  };
}

/** The name, in views, of what a slice of a mailbox is shown as; that of a slice in a view is its own. */
export function shownName({ metadata: { namespace, name } }: IdentitySlice): string {
  const cluster = clusterOfMailbox(namespace);
  return cluster === undefined ? name : identitySliceName(cluster, name);
}
