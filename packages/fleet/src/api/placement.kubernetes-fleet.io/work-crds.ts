import type { CustomResourceDefinition, JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { crd, int64, list, object, PLAIN_CONDITIONS, text, time } from "../crd-schema.ts";
import {
  ANY_OBJECT,
  APPLY_STRATEGY,
  CATEGORIES,
  GROUP,
  PATCH_DETAIL,
  REPORT_BACK_STRATEGY,
  type Version,
} from "./schemas.ts";

/** Objects to apply in a member, and in the member what was applied. */

const IDENTIFIER: Readonly<Record<string, JsonSchema>> = {
  "ordinal!": { type: "integer", description: "Position in spec.workload.manifests, from 0." },
  group: text(),
  version: text(),
  kind: text(),
  resource: text(),
  namespace: text(),
  name: text(),
};

function work(version: Version): JsonSchema {
  return object(
    {
      spec: object({
        workload: object({ manifests: list(ANY_OBJECT, "The objects to apply.") }),
        namespace: text(
          "Addition. The member applies only objects in this namespace, and refuses cluster-scoped ones. Absent: objects of any scope.",
        ),
        applyStrategy: APPLY_STRATEGY,
        ...(version === "v1" ? {} : { reportBackStrategy: REPORT_BACK_STRATEGY }),
      }),
      status: object({
        "conditions!": PLAIN_CONDITIONS,
        manifestConditions: list(
          object({
            "identifier!": object(IDENTIFIER),
            "conditions!": PLAIN_CONDITIONS,
            driftDetails: object({
              "observationTime!": time(),
              "observedInMemberClusterGeneration!": int64(),
              "firstDriftedObservedTime!": time(),
              observedDrifts: list(PATCH_DETAIL),
            }),
            diffDetails: object({
              "observationTime!": time(),
              observedInMemberClusterGeneration: int64(),
              "firstDiffedObservedTime!": time(),
              observedDiffs: list(PATCH_DETAIL),
            }),
            ...(version === "v1"
              ? {}
              : {
                  backReportedStatus: object({
                    observedStatus: ANY_OBJECT,
                    "observationTime!": time(),
                  }),
                }),
          }),
          "One entry for each object.",
        ),
      }),
    },
    "Objects that a member applies.",
  );
}

const APPLIED_WORK = object(
  {
    "spec!": object({ "workName!": text(), "workNamespace!": text("The namespace of the Work on the hub.") }),
    status: object({
      appliedResources: list(object({ ...IDENTIFIER, uid: text() }), "The objects that the Work applied."),
    }),
  },
  "The owner of the objects that a Work applied in this cluster.",
);

const versions = (schema: (version: Version) => JsonSchema) =>
  (["v1", "v1beta1"] as const).map((name) => ({ name, storage: name === "v1beta1", schema: schema(name) }));

export const WORK_CRD: CustomResourceDefinition = crd({
  group: GROUP,
  kind: "Work",
  categories: CATEGORIES,
  versions: versions(work),
});

export const APPLIED_WORK_CRD: CustomResourceDefinition = crd({
  group: GROUP,
  kind: "AppliedWork",
  scope: "Cluster",
  categories: CATEGORIES,
  versions: versions(() => APPLIED_WORK),
});
