import type { CustomResourceDefinition, JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";

/** The CRDs of a legacy hub: ours, without our kinds and without every field whose description contains "addition". */
export const PUBLISHED_CRDS: readonly CustomResourceDefinition[] = HUB_CRDS.filter(
  (it) => it.spec.group !== "fairlead.dev" && it.spec.group !== "fleetboard.io",
).map((it) => ({
  ...it,
  spec: {
    ...it.spec,
    versions: it.spec.versions.map((version) => ({
      ...version,
      ...(version.schema === undefined
        ? {}
        : { schema: { openAPIV3Schema: withoutAdditions(version.schema.openAPIV3Schema) } }),
    })),
  },
}));

function withoutAdditions(schema: JsonSchema): JsonSchema {
  const { properties, items } = schema;
  return {
    ...schema,
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(properties)
              .filter(([, it]) => it.description?.startsWith("Addition") !== true)
              .map(([name, it]) => [
                name,
                name === "addressType" ? { ...it, enum: ["IPv4"] } : withoutAdditions(it),
              ]),
          ),
        }),
    ...(items === undefined || typeof items !== "object" ? {} : { items: withoutAdditions(items) }),
  };
}
