import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { OVERRIDE_CRDS } from "./override-crds.ts";
import { PLACEMENT_CRDS as PLACEMENTS } from "./placement-crds.ts";
import { SNAPSHOT_CRDS } from "./snapshot-crds.ts";
import { STAGED_CRDS } from "./staged-crds.ts";
import { WORK_CRD } from "./work-crds.ts";

/** Kinds of `placement.kubernetes-fleet.io` on the hub. */
export const PLACEMENT_CRDS: readonly CustomResourceDefinition[] = [
  ...PLACEMENTS,
  ...SNAPSHOT_CRDS,
  ...OVERRIDE_CRDS,
  ...STAGED_CRDS,
  WORK_CRD,
];
