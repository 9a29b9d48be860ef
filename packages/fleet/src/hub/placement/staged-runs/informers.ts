import {
  APPROVAL_REQUESTS,
  type ApprovalRequest,
  CLUSTER_APPROVAL_REQUESTS,
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
  STAGED_UPDATE_RUNS,
  STAGED_UPDATE_STRATEGIES,
  type StagedUpdateRun,
  type StagedUpdateStrategy,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { UPDATE_RUN_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { PlacementScope } from "../scopes.ts";

/** The kinds of staged update runs of one scope. */
interface RunKinds {
  readonly runs: Resource<StagedUpdateRun>;
  readonly strategies: Resource<StagedUpdateStrategy>;
  readonly approvals: Resource<ApprovalRequest>;
}

export const RUN_KINDS: Readonly<Record<PlacementScope["name"], RunKinds>> = {
  cluster: {
    runs: CLUSTER_STAGED_UPDATE_RUNS,
    strategies: CLUSTER_STAGED_UPDATE_STRATEGIES,
    approvals: CLUSTER_APPROVAL_REQUESTS,
  },
  namespaced: {
    runs: STAGED_UPDATE_RUNS,
    strategies: STAGED_UPDATE_STRATEGIES,
    approvals: APPROVAL_REQUESTS,
  },
};

/** Index of runs by the key of their placement. */
export const RUNS_OF_PLACEMENT = "placement";

export interface RunInformers {
  readonly runs: Informer<StagedUpdateRun>;
  readonly approvals: Informer<ApprovalRequest>;
}

export function createRunInformers(
  client: KubeClient,
  { runs, approvals }: RunKinds,
  deps: RuntimeDeps,
): RunInformers {
  const options = { fieldManager: UPDATE_RUN_MANAGER };
  return {
    runs: createInformer(
      client,
      runs,
      { ...options, indexes: { [RUNS_OF_PLACEMENT]: (it) => [placementOfRun(it)] } },
      deps,
    ),
    approvals: createInformer(client, approvals, options, deps),
  };
}

export function placementOfRun({ metadata: { namespace }, spec }: StagedUpdateRun): ObjectKey {
  return objectKey(namespace, spec.placementName);
}
