import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import type { ValidatingAdmissionPolicy } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import {
  ACCEPTED_NODE_RANGES,
  ACCEPTED_POD_RANGES,
  ALLOWED_EXPORTERS_ANNOTATION,
  ALLOWED_IMPORTERS_ANNOTATION,
  CLUSTER_UID_ANNOTATION,
  DRAIN_ANNOTATION,
  FORCE_LEAVE_ANNOTATION,
  GRANTED_CIDRS_ANNOTATION,
  ISOLATION_ANNOTATION,
  MEMBER_GROUP_ANNOTATION,
  MEMBER_USER_ANNOTATION,
  POD_RANGES,
  SERVICE_RANGES,
} from "#api/fairlead.dev/names.ts";
import {
  NODE_OS_SCHEDULE_ANNOTATION,
  UPGRADE_SCHEDULE_ANNOTATION,
  UPGRADER_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/updates.ts";

/** Fairlead's annotations for objects of the hub, by kind. */
const KNOWN = {
  [NAMESPACES.kind]: [
    ALLOWED_EXPORTERS_ANNOTATION,
    ALLOWED_IMPORTERS_ANNOTATION,
    MEMBER_GROUP_ANNOTATION,
    MEMBER_USER_ANNOTATION,
  ],
  [MEMBER_CLUSTERS.kind]: [
    ACCEPTED_NODE_RANGES,
    ACCEPTED_POD_RANGES,
    CLUSTER_UID_ANNOTATION,
    DRAIN_ANNOTATION,
    FORCE_LEAVE_ANNOTATION,
    GRANTED_CIDRS_ANNOTATION,
    ISOLATION_ANNOTATION,
    POD_RANGES,
    SERVICE_RANGES,
    UPGRADE_SCHEDULE_ANNOTATION,
    NODE_OS_SCHEDULE_ANNOTATION,
    UPGRADER_ANNOTATION,
  ],
};

/** Warns about unknown annotations: a misspelled one would admit members that it should exclude. */
export const ANNOTATION_POLICY: ValidatingAdmissionPolicy = {
  metadata: { name: "fairlead-annotations" },
  spec: {
    // It only warns.
    failurePolicy: "Ignore",
    matchConstraints: {
      resourceRules: [NAMESPACES, MEMBER_CLUSTERS].map((it) => ({
        apiGroups: [it.group],
        apiVersions: ["*"],
        resources: [it.plural],
        operations: ["CREATE", "UPDATE"],
        scope: "Cluster",
      })),
    },
    matchConditions: [
      {
        name: "changes-annotations",
        expression:
          "has(object.metadata.annotations) && (oldObject == null || !has(oldObject.metadata.annotations) || object.metadata.annotations != oldObject.metadata.annotations)",
      },
    ],
    variables: [
      { name: "known", expression: `${JSON.stringify(KNOWN)}[object.kind]` },
      {
        name: "unknown",
        expression:
          'object.metadata.annotations.filter(it, it.startsWith("fairlead.dev/") && !(it in variables.known))',
      },
    ],
    validations: [
      {
        expression: "variables.unknown.size() == 0",
        messageExpression:
          'variables.unknown.join(", ") + " has no effect on a " + object.kind + "; known annotations: " + variables.known.join(", ")',
      },
    ],
  },
};
