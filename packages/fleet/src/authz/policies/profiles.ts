import type { ValidatingAdmissionPolicy } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { CLUSTER_MESH_PROFILES } from "#api/fairlead.dev/v1alpha1/mesh.ts";

/** Keeps a profile that was applied to members: they would lose each other's services at once. */
export const PROFILE_POLICY: ValidatingAdmissionPolicy = {
  metadata: { name: "fairlead-profiles" },
  spec: {
    failurePolicy: "Fail",
    matchConstraints: {
      resourceRules: [
        {
          apiGroups: [CLUSTER_MESH_PROFILES.group],
          apiVersions: ["*"],
          resources: [CLUSTER_MESH_PROFILES.plural],
          operations: ["DELETE"],
          scope: "Cluster",
        },
      ],
    },
    validations: [
      {
        expression:
          'oldObject.?spec.apply.orValue("Continuous") != "Manual" || oldObject.?spec.applied.members.orValue([]).size() == 0',
        messageExpression:
          '"profile " + oldObject.metadata.name + " has " + string(oldObject.spec.applied.members.size()) + " members; run \\"fairlead mesh delete " + oldObject.metadata.name + " --disconnect\\", which removes them first"',
        reason: "Forbidden",
      },
    ],
  },
};
