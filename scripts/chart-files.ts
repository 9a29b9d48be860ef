import { stringify } from "yaml";
import type { CustomResourceDefinition } from "#api/apiextensions/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "#api/crds/all.ts";

/** Names of the definitions that each chart's Job may write: path below the root, and text. */
export function chartFiles(): ReadonlyMap<string, string> {
  return new Map([
    ["charts/fairlead-hub/files/crds.yaml", names(HUB_CRDS)],
    ["charts/fairlead-member/files/crds.yaml", names(MEMBER_CRDS)],
  ]);
}

function names(crds: readonly CustomResourceDefinition[]): string {
  return `# Made by scripts/generate-crds.ts.\n${stringify(crds.map((it) => it.metadata.name).toSorted())}`;
}
