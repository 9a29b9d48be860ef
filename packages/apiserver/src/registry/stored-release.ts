import { FleetError } from "@fairlead/base/errors.ts";
import { decodeBuiltin } from "#schema/builtin-decode.ts";
import type { Minor } from "#schema/releases.ts";
import type { Store } from "#storage/store.ts";
import type { Catalog } from "./catalog.ts";

/**
 * Refuses a store with fields that an older release does not have: it would drop them with the next write.
 *
 * @throws {FleetError} `OPTION_INVALID` with the first such object.
 */
export function checkStored(store: Store, catalog: Catalog, release: Minor): void {
  for (const table of store.tables()) {
    const definition = catalog.ofTable(table.id);
    if (definition === undefined || definition.isCustom) continue;
    const { kind, schema, absent } = definition;
    for (const { key, object } of table.entries()) {
      const { unknown } = decodeBuiltin(object, { kind, schema, absent, version: definition.version });
      if (unknown.length === 0) continue;
      throw new FleetError(
        "OPTION_INVALID",
        `cannot serve Kubernetes ${release}: ${kind} ${key} has ${unknown[0]}, a field of a later release; remove it under the later release first`,
      );
    }
  }
}
