import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { publishedPart } from "../crd-schema.ts";
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

/** Additions: the rest works without these kinds. */
const ADDED = new Set(["ResourcePlacementEviction", "ResourcePlacementDisruptionBudget"]);

/** What KubeFleet's definitions have, too: enough to place resources. */
export const PUBLISHED_PLACEMENT_CRDS: readonly CustomResourceDefinition[] = PLACEMENT_CRDS.filter(
  (it) => !ADDED.has(it.spec.names.kind),
).map(publishedPart);
