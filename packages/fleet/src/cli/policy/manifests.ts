import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MAX_OWN_YAML, readYamlDocuments } from "@fairlead/kube/yaml/read.ts";

/**
 * The objects of a file of YAML or JSON, also those of lists.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function parseManifests(text: string, file: string): readonly KubeObject[] {
  try {
    return [...readYamlDocuments(text, MAX_OWN_YAML)].flatMap(({ value }) => {
      const object = value as (KubeObject & { readonly items?: readonly KubeObject[] }) | null;
      return object === null ? [] : (object.items ?? [object]);
    });
  } catch (error) {
    throw new FleetError(
      "OPTION_INVALID",
      `the manifest ${file} cannot be read: ${messageOf(error)}; correct it, or pass another file`,
    );
  }
}
