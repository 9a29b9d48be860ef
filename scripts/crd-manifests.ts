import { stringify } from "yaml";
import { HUB_CRDS, MEMBER_CRDS, POLICY_CRDS } from "@fairlead/fleet/api/crds.ts";

/** The manifests that `docs/reference/crds/` keeps: file name, and text. */
export function crdManifests(): ReadonlyMap<string, string> {
  const all = [...new Set([...HUB_CRDS, ...MEMBER_CRDS, ...POLICY_CRDS])];
  return new Map(
    all.map((it) => [
      `${it.spec.group}_${it.spec.names.plural}.yaml`,
      stringify(it, { aliasDuplicateObjects: false }),
    ]),
  );
}
