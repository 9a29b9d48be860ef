import { isObject, own } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  ALLOWED_EXPORTERS_ANNOTATION,
  ALLOWED_IMPORTERS_ANNOTATION,
  MEMBER_GROUP_ANNOTATION,
  MEMBER_USER_ANNOTATION,
} from "#api/fairlead.dev/names.ts";

type Fields = Readonly<Record<string, unknown>>;

const HUB_METADATA = new Set([
  "resourceVersion",
  "generation",
  "uid",
  "selfLink",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "managedFields",
  "ownerReferences",
]);
const HUB_ANNOTATIONS = new Set([
  "kubectl.kubernetes.io/last-applied-configuration",
  "deployment.kubernetes.io/revision",
]);
/** Of a Namespace: which members the hub trusts with it. */
const HUB_NAMESPACE_ANNOTATIONS = new Set([
  ...HUB_ANNOTATIONS,
  ALLOWED_EXPORTERS_ANNOTATION,
  ALLOWED_IMPORTERS_ANNOTATION,
  MEMBER_GROUP_ANNOTATION,
  MEMBER_USER_ANNOTATION,
]);
/** Labels that the API server gives to the pods of a Job that says nothing of its selector. */
const JOB_LABELS = new Set([
  "controller-uid",
  "job-name",
  "batch.kubernetes.io/controller-uid",
  "batch.kubernetes.io/job-name",
]);

/** The object as it is placed: without what belongs to its copy on the hub. */
export function cleaned(object: KubeObject): KubeObject {
  const { status: _, ...rest } = object as KubeObject & { status?: unknown };
  const result: Record<string, unknown> = { ...rest, metadata: cleanedMetadata(object) };
  const spec = own(result, "spec");
  if (isObject(spec)) result["spec"] = cleanedSpec(`${object.apiVersion}/${object.kind}`, spec);
  return result as unknown as KubeObject;
}

function cleanedMetadata({ apiVersion, kind, metadata }: KubeObject): Fields {
  const result = without(metadata as unknown as Fields, HUB_METADATA);
  if (metadata.annotations === undefined) return result;
  const dropped = apiVersion === "v1" && kind === "Namespace" ? HUB_NAMESPACE_ANNOTATIONS : HUB_ANNOTATIONS;
  return withOptional(result, "annotations", without(metadata.annotations, dropped));
}

function cleanedSpec(kind: string, spec: Fields): Fields {
  if (kind === "v1/Service") return cleanedService(spec);
  if (kind === "batch/v1/Job" && spec["manualSelector"] !== true) return cleanedJob(spec);
  return spec;
}

/** Addresses and node ports are those of the cluster. "None" is the user's choice. */
function cleanedService(spec: Fields): Fields {
  const isHeadless = spec["clusterIP"] === "None";
  const dropped = new Set(["healthCheckNodePort", ...(isHeadless ? [] : ["clusterIP", "clusterIPs"])]);
  const result = without(spec, dropped);
  const { ports } = result;
  if (!Array.isArray(ports)) return result;
  return {
    ...result,
    ports: ports.map((it: unknown) => (isObject(it) ? without(it, new Set(["nodePort"])) : it)),
  };
}

function cleanedJob(spec: Fields): Fields {
  const result = without(spec, new Set(["selector"]));
  const { template } = result;
  if (!isObject(template) || !isObject(template["metadata"])) return result;
  const metadata = without(template["metadata"], new Set(["creationTimestamp"]));
  const { labels } = metadata;
  const kept = isObject(labels) ? withOptional(metadata, "labels", without(labels, JOB_LABELS)) : metadata;
  return { ...result, template: { ...template, metadata: kept } };
}

function without(fields: Fields, names: ReadonlySet<string>): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.has(name)));
}

/** With a map of that name, unless it is empty. */
function withOptional(fields: Fields, name: string, map: Fields): Fields {
  return Object.keys(map).length === 0 ? without(fields, new Set([name])) : { ...fields, [name]: map };
}
