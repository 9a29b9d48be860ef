import type { Clock } from "@fairlead/base/clock.ts";
import { trackUpdate } from "#patch/track-update.ts";
import { timestamp } from "#registry/metadata.ts";
import type { Registry } from "#registry/registry.ts";
import { checkFields } from "#registry/shape.ts";
import { refuseOtherNamespace } from "#registry/write.ts";
import type { ReviewDefinition } from "#registry/types.ts";
import { resolveDefinition } from "#schema/definitions.ts";
import { methodNotAllowed } from "#status.ts";
import { mediaType, parseBodySteps, refuseUnstorable } from "./body.ts";
import type { ApiObject } from "#values/object.ts";
import type { Exchange } from "./exchange.ts";
import { negotiate } from "./negotiate.ts";
import { asObject, writeRequest } from "./objects.ts";
import { parseFieldManager, parseFieldValidation } from "./options.ts";
import type { ResourceTarget } from "./path.ts";

/** Serves resources that only answer POST and store nothing. Returns false if the target is not one of them. */
export async function serveReview(
  services: { readonly registry: Registry; readonly clock: Clock },
  exchange: Exchange,
  target: ResourceTarget,
): Promise<boolean> {
  const { registry, clock } = services;
  const definition = findReview(registry, target);
  if (definition === undefined) return false;
  if (exchange.method !== "POST") throw methodNotAllowed();
  const { format } = negotiate(exchange.request.headers.accept);
  refuseUnstorable(exchange.body);
  const type = mediaType(exchange.request.headers["content-type"]);
  const { value, duplicates } = await exchange.finish(parseBodySteps(exchange.body, type));
  const sent = asObject(value, definition.kind, definition.kindApiVersion ?? versionOf(definition));
  if (target.namespace !== undefined) refuseOtherNamespace(sent.metadata.namespace, target.namespace);
  const validation = parseFieldValidation(exchange);
  const warn = (message: string): void => exchange.warn(message);
  const checked = checkFields({ definition, object: sent, duplicates, validation, warn });
  definition.applyDefaults?.(checked);
  await exchange.letOthersIn();
  const object = trackUpdate({
    manager: parseFieldManager(exchange),
    apiVersion: definition.kindApiVersion ?? versionOf(definition),
    subresource: target.subresource,
    hasStatus: false,
    now: timestamp(clock.now()),
    schema: definition.schema,
    resolve: resolveDefinition,
    before: undefined,
    after: checked,
  });
  await admitForParent(registry, exchange, { target, definition, object });
  const answer = await definition.review({
    object,
    user: exchange.user,
    namespace: target.namespace,
    name: target.name,
    reader: registry.reader,
    nowMs: clock.now(),
  });
  await exchange.sendJson(201, JSON.stringify(answer), format);
  return true;
}

/** A request for a token is admitted as what it is: a write of a part of its account (KEP-1205). */
async function admitForParent(
  registry: Registry,
  exchange: Exchange,
  { target, definition, object }: { target: ResourceTarget; definition: ReviewDefinition; object: ApiObject },
): Promise<void> {
  const { namespace, name, subresource } = target;
  if (subresource === "") return;
  const parent = registry.catalog.resource(target.group, target.version, target.plural);
  if (parent === undefined) return;
  const [version = "", group = ""] = (definition.kindApiVersion ?? versionOf(definition))
    .split("/")
    .toReversed();
  const kind = { group, version, kind: definition.kind };
  const request = writeRequest(exchange, { definition: parent, namespace, name, subresource });
  await registry.attempt(request, (write) => {
    registry.admit(write, { operation: "CREATE", object, old: undefined, kind });
  });
}

function versionOf({ group, version }: ReviewDefinition): string {
  return group === "" ? version : `${group}/${version}`;
}

function findReview({ catalog }: Registry, target: ResourceTarget): ReviewDefinition | undefined {
  const { group, version, plural, name, subresource, rest } = target;
  if (rest.length > 0) return undefined;
  if (subresource !== "") return catalog.review(group, version, subresource, plural);
  return name === undefined ? catalog.review(group, version, plural) : undefined;
}
