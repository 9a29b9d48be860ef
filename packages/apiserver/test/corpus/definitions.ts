import { get, given, post, type Step } from "./scenario.ts";

/** CustomResourceDefinitions for scenarios: kind Widget of the group $id.example.com, unless told otherwise. */

export const WIDGETS = "/apis/$id.example.com/v1/namespaces/$ns/widgets";
export const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** A schema of an object that keeps whatever it is given. */
export const ANYTHING = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

/** The manifest: one version v1 with `schema`; `version` adds to it, `spec` to the whole. */
export function widgetDefinition(
  schema: object = ANYTHING,
  { version = {}, spec = {} }: { readonly version?: object; readonly spec?: object } = {},
): Readonly<Record<string, unknown>> {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.$id.example.com" },
    spec: {
      group: "$id.example.com",
      scope: "Namespaced",
      names: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" },
      versions: [
        { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema }, ...version },
      ],
      ...spec,
    },
  };
}

/** Steps that create a definition, unrecorded, and wait until its resources are served at `list`. */
export function definition(manifest: object = widgetDefinition(), list: string = WIDGETS): readonly Step[] {
  return given(post(DEFINITIONS, manifest), ...served(list));
}

/** Waits until the resources of a definition are served at `list`. */
export function served(list: string = WIDGETS): readonly Step[] {
  return given(get(list, { until: (body) => typeof body === "object" && body !== null && "items" in body }));
}
