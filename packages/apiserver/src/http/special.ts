import { badRequest, conflict, pathNotFound, StatusError } from "#status.ts";
import { notSupported, required } from "#values/field-errors.ts";
import { type Fields, textAt } from "@fairlead/base/fields.ts";
import { isObject } from "@fairlead/base/json.ts";
import { tableId } from "#registry/catalog.ts";
import { timestamp } from "#registry/metadata.ts";
import type { Registry } from "#registry/registry.ts";
import type { ApiObject } from "#values/object.ts";
import {
  checkBodyPlace,
  editableCopy,
  refuseOtherNamespace,
  viewOf,
  type WriteRequest,
  type WriteResult,
} from "#registry/write.ts";
import { storageKey } from "#storage/table.ts";
import { mediaType, parseBody } from "./body.ts";
import { evictPod } from "./eviction.ts";
import type { Exchange } from "./exchange.ts";
import { type Addressed, asObject, readObject, writeRequest } from "./objects.ts";
import { type PatchedPart, patchObject } from "./patch.ts";
import { readScale, scalePart } from "./scale.ts";
import type { KubeletTunnel } from "./tunnel.ts";

/** Subresources that are more than a part of the object: scale, and those of pods. */

export interface SpecialServices {
  readonly registry: Registry;
  readonly tunnel: KubeletTunnel;
}

export async function serveSpecial(
  services: SpecialServices,
  exchange: Exchange,
  of: Addressed,
): Promise<void> {
  switch (of.subresource) {
    case "scale":
      return serveScale(services.registry, exchange, of);
    case "binding":
      return bindPod(services.registry, exchange, of);
    case "eviction":
      return evictPod(services.registry, exchange, of);
    case "log":
    case "exec":
    case "attach":
    case "portforward":
      return services.tunnel.serveRequest(exchange, of.subresource, of);
    default:
      throw pathNotFound();
  }
}

async function serveScale(registry: Registry, exchange: Exchange, of: Addressed): Promise<void> {
  const { definition, namespace, name = "" } = of;
  const { scale } = definition;
  if (scale === undefined) throw pathNotFound();
  if (exchange.method === "GET") {
    const object = viewOf(definition, registry.get(definition, namespace, name));
    await exchange.sendJson(200, JSON.stringify(readScale(definition, object, scale)));
    return;
  }
  const request = writeRequest(exchange, of);
  const part = scalePart(definition, scale);
  const { object } = await (exchange.method === "PUT"
    ? putScale(registry, exchange, request, part)
    : patchObject(registry, exchange, request, part));
  await exchange.sendJson(200, JSON.stringify(part.of(object)));
}

async function putScale(
  registry: Registry,
  exchange: Exchange,
  request: WriteRequest,
  part: PatchedPart,
): Promise<WriteResult> {
  const scale = await readObject(exchange, part.definition);
  checkBodyPlace({ ...request, definition: part.definition }, scale);
  return registry.change(request, (entry) => {
    if (entry === undefined) return undefined;
    const input = editableCopy(request.definition, entry);
    part.set(input, scale);
    return { input, part };
  });
}

/** Binding: assigns a pod to its node, once, as a scheduler does. */
async function bindPod(registry: Registry, exchange: Exchange, of: Addressed): Promise<void> {
  const request: WriteRequest = { ...writeRequest(exchange, of), subresource: "" };
  const { value } = parseBody(exchange.body, mediaType(exchange.request.headers["content-type"]));
  const binding = asObject(value, "Binding", "v1");
  refuseOtherNamespace(binding.metadata.namespace, of.namespace);
  if (binding.metadata.name !== of.name)
    throw badRequest("name in URL does not match name in Binding object");
  const node = nodeOf(isObject(binding["target"]) ? binding["target"] : {});
  const { definition, namespace, name = "" } = of;
  const kind = { group: "", version: "v1", kind: "Binding" };
  await registry.attempt({ ...request, subresource: of.subresource }, (write) => {
    const { tx } = write;
    registry.admit(write, { operation: "CREATE", object: binding, old: undefined, kind });
    const entry = registry.get(definition, namespace, name);
    const pod = editableCopy(definition, entry);
    const spec = pod["spec"] as { nodeName?: string };
    if (pod.metadata.deletionTimestamp !== undefined) {
      throw conflict(definition, name, `pod ${name} is being deleted, cannot be assigned to a host`);
    }
    if ((spec.nodeName ?? "") !== "") {
      throw conflict(
        definition,
        name,
        `pod ${name} is already assigned to node ${JSON.stringify(spec.nodeName)}`,
      );
    }
    if (request.dryRun) return;
    spec.nodeName = node;
    setScheduled(pod, tx.nowMs);
    tx.put(registry.store.table(tableId(definition)), storageKey(namespace, name), pod);
  });
  const status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 };
  await exchange.sendJson(201, JSON.stringify(status));
}

/** @throws {StatusError} 500, as upstream answers, for a target that is not a node. */
function nodeOf(target: Fields): string {
  const kind = textAt(target, "kind");
  const name = textAt(target, "name");
  const errors = [
    ...(kind === "" || kind === "Node" ? [] : [notSupported("target.kind", kind, ["Node", "<empty>"])]),
    ...(name === "" ? [required("target.name")] : []),
  ];
  if (errors.length === 0) return name;
  const texts = errors.map((it) => `${it.field}: ${it.message}`);
  throw new StatusError({
    code: 500,
    message: texts.length === 1 ? (texts[0] ?? "") : `[${texts.join(", ")}]`,
  });
}

function setScheduled(pod: ApiObject, nowMs: number): void {
  const status = (pod["status"] ?? {}) as { conditions?: { type: string }[] };
  const others = (status.conditions ?? []).filter((it) => it.type !== "PodScheduled");
  const scheduled = {
    type: "PodScheduled",
    status: "True",
    lastProbeTime: null,
    lastTransitionTime: timestamp(nowMs),
  };
  pod["status"] = { ...status, conditions: [...others, scheduled] };
}
