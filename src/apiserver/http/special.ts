import { conflict, pathNotFound } from "../status.ts";
import { isObject } from "#base/json.ts";
import { tableId } from "../registry/catalog.ts";
import { timestamp } from "../registry/metadata.ts";
import type { Registry } from "../registry/registry.ts";
import type { ApiObject, ResourceDefinition } from "../registry/types.ts";
import type { ObjectPart } from "../registry/update.ts";
import { editableCopy, viewOf, type WriteRequest } from "../registry/write.ts";
import { storageKey } from "../storage/table.ts";
import { mediaType, parseBody, readBody, utf8 } from "./body.ts";
import { evictPod } from "./eviction.ts";
import type { Exchange } from "./exchange.ts";
import { type Addressed, asObject, writeRequest } from "./objects.ts";
import { SCALE_KIND, SCALE_VERSION, scaleOf, setScale } from "./scale.ts";
import type { KubeletTunnel } from "./tunnel.ts";
import { applyJsonPatch } from "../patch/json-patch.ts";
import { applyMergePatch } from "../patch/merge-patch.ts";
import { parseJson } from "../schema/json.ts";

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
    await exchange.sendJson(200, JSON.stringify(scaleOf(object, scale)));
    return;
  }
  const request = writeRequest(exchange, of);
  const change = await readScaleChange(exchange);
  const result = await registry.change(request, (entry) => {
    if (entry === undefined) return undefined;
    const object = editableCopy(definition, entry);
    setScale(object, change(scaleOf(object, scale)), scale);
    return { input: object, part: scalePart(scale) };
  });
  await exchange.sendJson(200, JSON.stringify(scaleOf(result.object, scale)));
}

/** Admission sees Scales, not what they are drawn from. */
function scalePart(paths: NonNullable<ResourceDefinition["scale"]>): ObjectPart {
  return {
    kind: { group: "autoscaling", version: "v1", kind: SCALE_KIND },
    of: (object) => scaleOf(object, paths),
    set: (object, scale) => setScale(object, scale, paths),
  };
}

/** What turns the present Scale into the one that is asked for. */
async function readScaleChange(exchange: Exchange): Promise<(scale: ApiObject) => ApiObject> {
  const body = await readBody(exchange.request);
  const type = mediaType(exchange.request.headers["content-type"]);
  if (exchange.method === "PUT") {
    const { value } = parseBody(body, type);
    return () => asObject(value, SCALE_KIND, SCALE_VERSION);
  }
  const { value: patch } = parseJson(utf8(body));
  const apply = type === "application/json-patch+json" ? applyJsonPatch : applyMergePatch;
  return (scale) => asObject(apply(scale, patch), SCALE_KIND, SCALE_VERSION);
}

/** What a scheduler does: gives a pod its node, once. */
async function bindPod(registry: Registry, exchange: Exchange, of: Addressed): Promise<void> {
  const request: WriteRequest = { ...writeRequest(exchange, of), subresource: "" };
  const { value } = parseBody(
    await readBody(exchange.request),
    mediaType(exchange.request.headers["content-type"]),
  );
  const binding = asObject(value, "Binding", "v1");
  const target = binding["target"];
  const node = isObject(target) ? target["name"] : undefined;
  if (typeof node !== "string" || node === "")
    throw conflict(of.definition, of.name ?? "", "target.name is required");
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
