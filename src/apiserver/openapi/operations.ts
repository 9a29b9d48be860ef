import { REF_PREFIX } from "../schema/definitions.ts";
import type { DocumentedResource } from "./documents.ts";
import { schemaName } from "./schemas.ts";

type Operation = Readonly<Record<string, unknown>>;
type PathItem = Record<string, unknown>;

interface Kind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

const META = `${REF_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1`;
const SCALE: Kind = { group: "autoscaling", version: "v1", kind: "Scale" };
const SCALE_REF = `${REF_PREFIX}io.k8s.api.autoscaling.v1.Scale`;

function query(name: string, type: "string" | "integer" | "boolean", description: string): Operation {
  return { name, in: "query", description, schema: { type, uniqueItems: true } };
}

function inPath(name: string): Operation {
  return { name, in: "path", required: true, schema: { type: "string", uniqueItems: true } };
}

const PRETTY = query("pretty", "string", "If 'true', the output is indented.");
const DRY_RUN = query("dryRun", "string", "When present, nothing is stored. Valid value: All.");
const FIELD_MANAGER = query("fieldManager", "string", "Name of the actor that makes the change.");
/** kubectl validates on the server where an operation has this parameter (KEP-2885). */
const FIELD_VALIDATION = query(
  "fieldValidation",
  "string",
  "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
);
const FORCE = query("force", "boolean", "Server-side apply: take fields over from other managers.");
const WRITE = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const DELETE = [
  DRY_RUN,
  query("gracePeriodSeconds", "integer", "Seconds before the object is deleted."),
  query("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
  query("propagationPolicy", "string", "Orphan, Background or Foreground."),
];
const LIST = [
  query("allowWatchBookmarks", "boolean", "Ask for events of type BOOKMARK."),
  query("continue", "string", "The token of an earlier page."),
  query("fieldSelector", "string", "Restrict the list by fields."),
  query("labelSelector", "string", "Restrict the list by labels."),
  query("limit", "integer", "Greatest number of objects in the answer."),
  query("resourceVersion", "string", "What versions the answer may be served from."),
  query("resourceVersionMatch", "string", "How resourceVersion is meant."),
  query("sendInitialEvents", "boolean", "Begin a watch with the present state."),
  query("timeoutSeconds", "integer", "Limit of the call."),
  query("watch", "boolean", "Stream changes."),
];

const JSON_PATCH = "application/json-patch+json";
const MERGE_PATCH = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json";
const APPLY_PATCH = "application/apply-patch+yaml";

function content(types: readonly string[], $ref: string): Operation {
  return Object.fromEntries(types.map((type) => [type, { schema: { $ref } }]));
}

function answer($ref: string): Operation {
  return { description: "OK", content: content(["application/json", "application/yaml"], $ref) };
}

/** Every path that a resource is served under, with its operations. */
export function operationsOf(resource: DocumentedResource): Record<string, PathItem> {
  const root =
    resource.group === "" ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const collection = resource.namespaced
    ? `${root}/namespaces/{namespace}/${resource.plural}`
    : `${root}/${resource.plural}`;
  const ofResource = new Operations(resource);
  const paths: Record<string, PathItem> = { [collection]: ofResource.collection() };
  if (resource.namespaced && resource.verbs.includes("list")) {
    paths[`${root}/${resource.plural}`] = ofResource.allNamespaces();
  }
  if (resource.verbs.includes("get")) paths[`${collection}/{name}`] = ofResource.item();
  if (resource.hasStatus) paths[`${collection}/{name}/status`] = ofResource.subresource("Status");
  if (resource.scale !== undefined) paths[`${collection}/{name}/scale`] = ofResource.subresource("Scale");
  return paths;
}

class Operations {
  readonly #resource: DocumentedResource;
  readonly #ref: string;
  readonly #kind: Kind;

  constructor(resource: DocumentedResource) {
    const { group, version, kind } = resource;
    this.#resource = resource;
    this.#ref = REF_PREFIX + schemaName(resource);
    this.#kind = { group, version, kind };
  }

  collection(): PathItem {
    const item: PathItem = { parameters: this.#parameters([]) };
    if (this.#has("list")) item["get"] = this.#list("");
    if (this.#has("create")) {
      item["post"] = this.#operation("post", "create", {
        parameters: WRITE,
        requestBody: { required: true, content: content(["*/*"], this.#ref) },
        responses: { "200": answer(this.#ref), "201": answer(this.#ref), "202": answer(this.#ref) },
      });
    }
    if (this.#has("deletecollection")) {
      item["delete"] = this.#operation("deletecollection", "deleteCollection", {
        parameters: [...DELETE, ...LIST],
        requestBody: { content: content(["*/*"], `${META}.DeleteOptions`) },
        responses: { "200": answer(`${META}.Status`) },
      });
    }
    return item;
  }

  allNamespaces(): PathItem {
    return { parameters: [PRETTY], get: this.#list("ForAllNamespaces") };
  }

  item(): PathItem {
    const item: PathItem = {
      parameters: this.#parameters([inPath("name")]),
      ...this.#changes(this.#ref, this.#kind, ""),
    };
    if (this.#has("delete")) {
      item["delete"] = this.#operation("delete", "delete", {
        parameters: DELETE,
        requestBody: { content: content(["*/*"], `${META}.DeleteOptions`) },
        responses: { "200": answer(`${META}.Status`), "202": answer(`${META}.Status`) },
      });
    }
    return item;
  }

  subresource(suffix: "Status" | "Scale"): PathItem {
    const [ref, kind] = suffix === "Scale" ? [SCALE_REF, SCALE] : [this.#ref, this.#kind];
    return { parameters: this.#parameters([inPath("name")]), ...this.#changes(ref, kind, suffix) };
  }

  #changes(ref: string, kind: Kind, suffix: string): PathItem {
    const item: PathItem = {
      get: this.#operation("get", `read${suffix}`, { responses: { "200": answer(ref) } }, kind),
    };
    const written = { "200": answer(ref), "201": answer(ref) };
    if (this.#has("update")) {
      const requestBody = { required: true, content: content(["*/*"], ref) };
      const body = { parameters: WRITE, requestBody, responses: written };
      item["put"] = this.#operation("put", `replace${suffix}`, body, kind);
    }
    if (this.#has("patch")) {
      const requestBody = { required: true, content: content(this.#patchTypes(), `${META}.Patch`) };
      const body = { parameters: [...WRITE, FORCE], requestBody, responses: written };
      item["patch"] = this.#operation("patch", `patch${suffix}`, body, kind);
    }
    return item;
  }

  #patchTypes(): string[] {
    const types = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH];
    return this.#resource.isCustom ? types : [...types, STRATEGIC_MERGE_PATCH];
  }

  #list(suffix: string): Operation {
    const responses = { "200": answer(`${this.#ref}List`) };
    return this.#operation("list", `list${suffix}`, { parameters: LIST, responses });
  }

  #operation(action: string, name: string, body: Operation, kind: Kind = this.#kind): Operation {
    const { group, version, namespaced } = this.#resource;
    const groupName = group === "" ? "core" : (group.split(".")[0] ?? group);
    const scope = namespaced && !name.endsWith("ForAllNamespaces") ? "Namespaced" : "";
    const at = /Status$|Scale$|ForAllNamespaces$/.exec(name);
    const [verb, suffix] = at === null ? [name, ""] : [name.slice(0, at.index), at[0]];
    return {
      tags: [group === "" ? `core_${version}` : `${groupName}_${version}`],
      operationId: `${verb}${capitalise(groupName)}${capitalise(version)}${scope}${this.#resource.kind}${suffix}`,
      ...body,
      "x-kubernetes-action": action,
      "x-kubernetes-group-version-kind": kind,
    };
  }

  #parameters(more: readonly Operation[]): Operation[] {
    return [...more, ...(this.#resource.namespaced ? [inPath("namespace")] : []), PRETTY];
  }

  #has(verb: string): boolean {
    return this.#resource.verbs.includes(verb);
  }
}

function capitalise(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
