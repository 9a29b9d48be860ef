import { defined } from "@fairlead/base/defined.ts";
import { Authenticator } from "#auth/authenticate.ts";
import { admissionResources } from "#admission/resources.ts";
import { accessResources } from "#auth/resources.ts";
import { RbacAuthorizer } from "#auth/rbac.ts";
import { accessReviews } from "#auth/reviews.ts";
import { authenticationReviews } from "#auth/reviews-authentication.ts";
import type { TokenSource } from "#auth/token-source.ts";
import type { ServiceAccountTokens } from "#auth/tokens.ts";
import type { ResourceDefinition, ReviewDefinition, Strategy } from "#registry/types.ts";
import { coreResources } from "#builtin/kinds/core.ts";
import { flowResources } from "#builtin/kinds/flow.ts";
import { clusterResources, eventResources, networkResources } from "#builtin/kinds/other.ts";
import { storageResources } from "#builtin/kinds/storage.ts";
import { workloadResources } from "#builtin/kinds/workloads.ts";
import type { PodAdmission } from "#builtin/pod/admission.ts";
import { type AllocationOptions, ServiceAllocations } from "#builtin/service/allocations.ts";

export interface BuiltinOptions extends AllocationOptions {
  readonly serviceAccountTokens: ServiceAccountTokens;
  /** Kinds of bearer tokens in addition to those of ServiceAccounts. */
  readonly tokenSources?: readonly TokenSource[];
  /** Whether requests without credentials are those of `system:anonymous`. Default: true. */
  readonly anonymous?: boolean;
  /** Ids of tokens. Fresh UUIDs. */
  readonly newUid: () => string;
  /** PEM of the authority of the API server's certificate, for Secrets with tokens. */
  readonly rootCa?: string;
  /** Rules of CustomResourceDefinitions. Default: those of any kind. */
  readonly crdStrategy?: Partial<Strategy>;
  /** Which admission plugins that belong to pods are on. Default: all. */
  readonly podAdmission?: PodAdmission;
}

export interface Builtins {
  readonly resources: readonly ResourceDefinition[];
  readonly reviews: readonly ReviewDefinition[];
  readonly authorizer: RbacAuthorizer;
  readonly authenticator: Authenticator;
  /** Which Service holds which address and port. */
  readonly allocations: ServiceAllocations;
}

/**
 * Everything that is served without a CustomResourceDefinition, and the authenticators and authorizers. The parts follow
 * the store through the strategies' `onStored`: one set belongs to one store.
 */
export function builtinResources(options: BuiltinOptions): Builtins {
  const { serviceAccountTokens, tokenSources, anonymous, newUid } = options;
  const allocations = new ServiceAllocations(options);
  const authorizer = new RbacAuthorizer();
  const authenticator = new Authenticator({
    serviceAccountTokens,
    ...defined({ tokenSources, anonymous }),
  });
  return {
    resources: [
      ...coreResources(
        allocations,
        { key: serviceAccountTokens.key, rootCa: options.rootCa },
        options.podAdmission ?? (() => true),
      ),
      ...eventResources(),
      ...workloadResources(),
      ...networkResources(allocations),
      ...storageResources(),
      ...flowResources(),
      ...accessResources(authorizer),
      ...admissionResources(),
      ...clusterResources(options.crdStrategy ?? {}),
    ],
    reviews: [
      ...authenticationReviews({ authenticator, serviceAccountTokens, newUid }),
      ...accessReviews(authorizer),
    ],
    authorizer,
    authenticator,
    allocations,
  };
}
