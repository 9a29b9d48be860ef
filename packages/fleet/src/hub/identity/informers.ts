import {
  CERTIFICATE_SIGNING_REQUESTS,
  type CertificateSigningRequest,
  CLIENT_SIGNER,
} from "@fairlead/kube/api/certificates/v1/types.ts";
import { SERVICE_ACCOUNTS, type ServiceAccount } from "@fairlead/kube/api/core/v1/types.ts";
import { JOINS_LABEL, USED_BY_ANNOTATION } from "#api/fairlead.dev/identity.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";

export interface IdentityInformers {
  readonly signingRequests: Informer<CertificateSigningRequest>;
  readonly bootstrapAccounts: Informer<ServiceAccount>;
}

export function createIdentityInformers(client: KubeClient, deps: RuntimeDeps): IdentityInformers {
  const fieldSelector = `spec.signerName=${CLIENT_SIGNER}`;
  const indexes = {
    uid: (it: CertificateSigningRequest) => [it.metadata.uid ?? ""],
  };
  return {
    signingRequests: createInformer(client, CERTIFICATE_SIGNING_REQUESTS, { fieldSelector, indexes }, deps),
    bootstrapAccounts: createInformer(
      client,
      SERVICE_ACCOUNTS,
      {
        namespace: FLEET_SYSTEM_NAMESPACE,
        labelSelector: JOINS_LABEL,
        indexes: { usedBy: (it) => [usedBy(it) ?? ""] },
      },
      deps,
    ),
  };
}

/** Uid of the request that the token of an account was used for. */
export function usedBy(account: ServiceAccount): string | undefined {
  return account.metadata.annotations?.[USED_BY_ANNOTATION];
}
