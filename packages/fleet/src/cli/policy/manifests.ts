import { FleetError } from "@fairlead/base/errors.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { parseAllDocuments } from "yaml";

/**
 * The objects of a file of YAML or JSON, also those of lists.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function parseManifests(text: string, file: string): readonly KubeObject[] {
  return parseAllDocuments(text).flatMap((it) => {
    const [error] = it.errors;
    if (error !== undefined)
      throw new FleetError("OPTION_INVALID", `${file} cannot be read: ${error.message}`);
    const object = it.toJS() as (KubeObject & { readonly items?: readonly KubeObject[] }) | null;
    return object === null ? [] : (object.items ?? [object]);
  });
}
