/** The warnings that kubectl prints for requests that nodes of a lab do not support. */

import {
  VALIDATING_ADMISSION_POLICIES,
  VALIDATING_ADMISSION_POLICY_BINDINGS,
} from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

const NAME = "fairlead-lab-host-path";

const MESSAGE =
  "nodes of a lab have no hostPath: this pod stays in ContainerCreating. In place of kubectl debug node/NODE: fairlead lab shell NODE";

/** A warning, and no refusal: the pod's events say the same. */
export async function applyWarnings(
  client: KubeClient,
  options: { readonly fieldManager: string; readonly signal: AbortSignal },
): Promise<void> {
  await client.apply(VALIDATING_ADMISSION_POLICIES, POLICY, options);
  await client.apply(VALIDATING_ADMISSION_POLICY_BINDINGS, BINDING, options);
}

const POLICY = {
  metadata: { name: NAME },
  spec: {
    failurePolicy: "Ignore",
    matchConstraints: {
      resourceRules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["pods"], operations: ["CREATE"] }],
    },
    validations: [
      {
        expression: "!has(object.spec.volumes) || !object.spec.volumes.exists(it, has(it.hostPath))",
        message: MESSAGE,
      },
    ],
  },
} as const;

const BINDING = {
  metadata: { name: NAME },
  spec: { policyName: NAME, validationActions: ["Warn"] },
} as const;
