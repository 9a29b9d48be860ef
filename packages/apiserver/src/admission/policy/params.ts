import { matchesLabels } from "#builtin/selectors.ts";
import { type Catalog, tableId } from "#registry/catalog.ts";
import type { Attributes } from "#registry/admission.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { viewOf } from "#registry/write.ts";
import { splitApiVersion } from "#schema/definitions.ts";
import type { Store } from "#storage/store.ts";
import { storageKey } from "#storage/table.ts";
import type { ParamKind, ParamRef } from "./types.ts";

export interface ParamServices {
  readonly store: Store;
  readonly catalog: Catalog;
}

/**
 * The parameters with which a policy is evaluated, once for each; one undefined where it takes none.
 * Source: apiserver, pkg/admission/plugin/policy/generic, `CollectParams`.
 *
 * @throws {Error} when a binding names none that can be.
 */
export function collectParams(
  services: ParamServices,
  { kind, ref }: { readonly kind: ParamKind | undefined; readonly ref: ParamRef | undefined },
  { namespace }: Attributes,
): readonly (ApiObject | undefined)[] {
  if (kind === undefined || ref === undefined) return [undefined];
  const definition = findKind(services.catalog, kind);
  if (definition === undefined) {
    throw new Error(`paramKind kind \`${kind.apiVersion}, Kind=${kind.kind}\` not known`);
  }
  const found = findParams(services.store, definition, {
    ref,
    namespace: placeOf(definition, ref, namespace),
  });
  if (found.length === 0 && ref.parameterNotFoundAction === "Deny") {
    throw new Error("no params found for policy binding with `Deny` parameterNotFoundAction");
  }
  return found;
}

function findKind(catalog: Catalog, { apiVersion, kind }: ParamKind): ResourceDefinition | undefined {
  const { group, version } = splitApiVersion(apiVersion);
  const any = catalog.ofKind(group, kind);
  return any === undefined ? undefined : catalog.resource(group, version, any.plural);
}

function placeOf({ namespaced }: ResourceDefinition, ref: ParamRef, requested: string): string | undefined {
  const { namespace = "" } = ref;
  if (!namespaced) {
    if (namespace === "") return undefined;
    throw new Error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`");
  }
  const place = namespace === "" ? requested : namespace;
  if (place !== "") return place;
  throw new Error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources");
}

function findParams(
  store: Store,
  definition: ResourceDefinition,
  { ref, namespace }: { readonly ref: ParamRef; readonly namespace: string | undefined },
): readonly ApiObject[] {
  const table = store.table(tableId(definition));
  const { name = "", selector = {} } = ref;
  if (name !== "") {
    const entry = table.get(storageKey(namespace, name));
    return entry === undefined ? [] : [viewOf(definition, entry)];
  }
  return [...table.entries(namespace)]
    .map((it) => viewOf(definition, it))
    .filter((it) => matchesLabels(selector, it.metadata.labels ?? {}));
}
