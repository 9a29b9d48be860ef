import { isObject } from "@fairlead/base/json.ts";
import { budgetsOf, spendBudget, withDisruptionTarget } from "#builtin/eviction.ts";
import { tableId } from "#registry/catalog.ts";
import { timestamp } from "#registry/metadata.ts";
import type { Registry } from "#registry/registry.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { editableCopy, refuseOtherNamespace, viewOf, type Write } from "#registry/write.ts";
import { badRequest, methodNotAllowed, notFound } from "#status.ts";
import { storageKey } from "#storage/table.ts";
import { mediaType, parseBody } from "./body.ts";
import type { Exchange } from "./exchange.ts";
import { type Addressed, asObject, writeRequest } from "./objects.ts";

const EVICTION = { group: "policy", version: "v1", kind: "Eviction" };
const BUDGETS = { group: "policy", plural: "poddisruptionbudgets" };

/** A DELETE that PodDisruptionBudgets may refuse for now (policy/v1): one turn reads the budget, spends it and deletes. */
export async function evictPod(registry: Registry, exchange: Exchange, of: Addressed): Promise<void> {
  const { definition, namespace, name = "" } = of;
  if (exchange.method !== "POST") throw methodNotAllowed();
  const { value } = parseBody(exchange.body, mediaType(exchange.request.headers["content-type"]));
  const options = deleteOptionsOf(value);
  const asked = writeRequest(exchange, of);
  const request = { ...asked, dryRun: asked.dryRun || options.isDryRun };
  // Older clients evict by the version before, which says the same.
  const version =
    isObject(value) && value["apiVersion"] === "policy/v1beta1" ? "policy/v1beta1" : "policy/v1";
  const eviction = asObject(value, "Eviction", version);
  refuseOtherNamespace(eviction.metadata.namespace, namespace);
  if (eviction.metadata.name !== name) throw badRequest("name in URL does not match name in Eviction object");
  await registry.attempt(request, (write) => {
    registry.admit(write, { operation: "CREATE", object: eviction, old: undefined, kind: EVICTION });
    const pod = viewOf(definition, registry.get(definition, namespace, name));
    const now = timestamp(write.tx.nowMs);
    const all = registry.reader.list(BUDGETS.group, BUDGETS.plural, namespace);
    const spent = spendBudget(pod, budgetsOf(pod, all), now);
    const { gracePeriodSeconds, preconditions } = options;
    const removal = { gracePeriodSeconds, preconditions, dryRun: request.dryRun };
    if (!request.dryRun) {
      if (spent !== undefined)
        put(registry, write, budgetDefinition(registry), { ...spent.budget, status: spent.status });
      put(registry, write, definition, withDisruptionTarget(pod, now));
    }
    registry.deleteIn(write.tx, { definition, namespace, name }, removal);
  });
  const status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 };
  await exchange.sendJson(201, JSON.stringify(status));
}

interface EvictionOptions {
  readonly gracePeriodSeconds: number | undefined;
  readonly preconditions: { readonly uid?: string; readonly resourceVersion?: string } | undefined;
  readonly isDryRun: boolean;
}

function deleteOptionsOf(value: Record<string, unknown>): EvictionOptions {
  const options = isObject(value["deleteOptions"]) ? value["deleteOptions"] : {};
  const { gracePeriodSeconds: grace, preconditions, dryRun } = options;
  return {
    gracePeriodSeconds: typeof grace === "number" ? grace : undefined,
    preconditions: isObject(preconditions) ? preconditions : undefined,
    isDryRun: Array.isArray(dryRun) && dryRun.includes("All"),
  };
}

function put(registry: Registry, { tx }: Write, definition: ResourceDefinition, object: ApiObject): void {
  const { namespace, name } = object.metadata;
  const copy = editableCopy(definition, registry.get(definition, namespace, name));
  tx.put(registry.store.table(tableId(definition)), storageKey(namespace, name), {
    ...copy,
    status: object["status"],
  });
}

function budgetDefinition(registry: Registry): ResourceDefinition {
  const definition = registry.catalog.resource(BUDGETS.group, "v1", BUDGETS.plural);
  if (definition === undefined) throw notFound(BUDGETS, "");
  return definition;
}
