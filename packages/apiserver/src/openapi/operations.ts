import { type Subresource, subresourcesOf } from "#registry/subresources.ts";
import { builtinSchema, REF_PREFIX, splitApiVersion } from "#schema/definitions.ts";
import { type DocumentedResource, type DocumentedReview, openapiPath } from "./types.ts";
import {
  CONNECT,
  DELETE,
  DRY_RUN,
  FIELD_MANAGER,
  FIELD_VALIDATION,
  FORCE,
  inPath,
  LIST,
  LOG,
  type Operation,
  PRETTY,
  WRITE,
} from "./parameters.ts";
import { schemaName } from "./schemas.ts";

type PathItem = Record<string, unknown>;

interface Kind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

const META = `${REF_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1`;
const SCALE: Kind = { group: "autoscaling", version: "v1", kind: "Scale" };
const SCALE_REF = `${REF_PREFIX}io.k8s.api.autoscaling.v1.Scale`;

const JSON_PATCH = "application/json-patch+json";
const MERGE_PATCH = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json";
const APPLY_PATCH = "application/apply-patch+yaml";

/** Without a reference, the body is text or bytes. */
function content(types: readonly string[], $ref: string | undefined): Operation {
  const schema = $ref === undefined ? { type: "string" } : { $ref };
  return Object.fromEntries(types.map((type) => [type, { schema }]));
}

function answer($ref: string, more: readonly string[] = []): Operation {
  return { description: "OK", content: content(["application/json", "application/yaml", ...more], $ref) };
}

/** Every path that a resource is served under, with its operations. */
export function operationsOf(resource: DocumentedResource): Record<string, PathItem> {
  const { plural, namespaced } = resource;
  const root = `/${openapiPath(resource)}`;
  const within = namespaced ? `/namespaces/{namespace}/${plural}` : `/${plural}`;
  const collection = root + within;
  const ofResource = new Operations(resource);
  const paths: Record<string, PathItem> = { [collection]: ofResource.collection() };
  const has = (verb: string): boolean => resource.verbs.includes(verb);
  if (namespaced && has("list")) paths[`${root}/${plural}`] = ofResource.allNamespaces();
  if (has("get")) paths[`${collection}/{name}`] = ofResource.item();
  for (const it of subresourcesOf(resource)) {
    paths[`${collection}/{name}/${it.name}`] = ofResource.subresource(it);
    if (it.name === "proxy")
      paths[`${collection}/{name}/proxy/{path}`] = ofResource.subresource(it, "WithPath");
  }
  if (!has("watch") || resource.isCustom) return paths;
  // The deprecated watch paths of older clients.
  paths[`${root}/watch${within}`] = ofResource.watch("List");
  paths[`${root}/watch${within}/{name}`] = ofResource.watch("");
  if (namespaced) paths[`${root}/watch/${plural}`] = ofResource.watch("ListForAllNamespaces");
  return paths;
}

/** The one path of what only answers POST. */
export function reviewOperation(review: DocumentedReview): Record<string, PathItem> {
  const { group, version, kind, namespaced, parent, plural, kindApiVersion } = review;
  const ofKind = kindApiVersion === undefined ? { group, version } : splitApiVersion(kindApiVersion);
  const place = namespaced ? "/namespaces/{namespace}" : "";
  const path = parent === undefined ? plural : `${parent}/{name}/${plural}`;
  const named = parent === undefined ? kind : "ServiceAccountToken";
  const ref = REF_PREFIX + schemaName(review);
  const post = {
    tags: [tagOf(review)],
    description: `create a ${kind}`,
    operationId: operationId(review, { verb: "create", kind: named, namespaced }),
    requestBody: { required: true, content: content(["*/*"], ref) },
    responses: { "200": answer(ref), "201": answer(ref), "202": answer(ref), ...UNAUTHORIZED },
    "x-kubernetes-action": "post",
    "x-kubernetes-group-version-kind": { ...ofKind, kind },
  };
  const parameters = [
    DRY_RUN,
    FIELD_MANAGER,
    FIELD_VALIDATION,
    ...(parent === undefined ? [] : [inPath("name")]),
    ...(namespaced ? [inPath("namespace")] : []),
    PRETTY,
  ];
  return { [`/${openapiPath(review)}${place}/${path}`]: { post, parameters } };
}

/** The path that lists what a group version serves. */
export function discoveryOperation(of: Kind | { group: string; version: string }): Record<string, PathItem> {
  const get = {
    tags: [tagOf(of)],
    description: "get available resources",
    operationId: `get${groupName(of.group)}${capitalise(of.version)}APIResources`,
    responses: { "200": answer(`${META}.APIResourceList`), ...UNAUTHORIZED },
  };
  return { [`/${openapiPath(of)}/`]: { get } };
}

function tagOf({ group, version }: { readonly group: string; readonly version: string }): string {
  return `${group === "" ? "core" : shortGroup(group)}_${version}`;
}

/** "rbac.authorization.k8s.io" → "rbacAuthorization", as the real server calls it. */
function shortGroup(group: string): string {
  const parts = group.replace(/\.k8s\.io$/, "").split(".");
  return parts.map((it, index) => (index === 0 ? it : capitalise(it))).join("");
}

function groupName(group: string): string {
  return group === "" ? "Core" : capitalise(shortGroup(group));
}

function operationId(
  of: { readonly group: string; readonly version: string },
  parts: { verb: string; method?: string; namespaced: boolean; kind: string; suffix?: string },
): string {
  const { verb, method = "", namespaced, kind, suffix = "" } = parts;
  const scope = namespaced ? "Namespaced" : "";
  return `${verb}${groupName(of.group)}${capitalise(of.version)}${method}${scope}${kind}${suffix}`;
}

const UNAUTHORIZED = { "401": { description: "Unauthorized" } };
const WATCH_ONLY: ReadonlySet<unknown> = new Set(["allowWatchBookmarks", "watch"]);
const PROXIED = ["get", "put", "post", "delete", "options", "head", "patch"];

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
        parameters: [...DELETE, ...LIST.filter((it) => !WATCH_ONLY.has(it["name"]))],
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
      ...this.#changes(this.#ref, this.#kind, { suffix: "", verbs: this.#resource.verbs }),
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

  subresource({ name, verbs, kind }: Subresource, more = ""): PathItem {
    const suffix = capitalise(name === "portforward" ? "Portforward" : name);
    const inside = more === "" ? [] : [inPath("path")];
    const parameters = this.#parameters([inPath("name"), ...inside]);
    const connect = CONNECT.get(name);
    if (connect !== undefined) {
      const methods = name === "proxy" ? PROXIED : ["get", "post"];
      const operations = methods.map((it) => [it, this.#connect(it, suffix + more, kind)] as const);
      return { ...Object.fromEntries(operations), parameters: [...connect, ...parameters] };
    }
    if (name === "log") {
      const responses = { "200": { description: "OK", content: content(["text/plain"], undefined) } };
      return {
        get: this.#operation("get", `read${suffix}`, { responses }),
        parameters: [...LOG, ...parameters],
      };
    }
    const of = name === "scale" ? SCALE : (kind ?? this.#kind);
    const ref = name === "scale" ? SCALE_REF : REF_PREFIX + kindSchema(of, this.#resource);
    if (!verbs.includes("create")) return { parameters, ...this.#changes(ref, of, { suffix, verbs }) };
    const post = this.#operation(
      "post",
      `create${suffix}`,
      {
        requestBody: { required: true, content: content(["*/*"], ref) },
        responses: { "200": answer(ref), "201": answer(ref), "202": answer(ref) },
      },
      of,
    );
    return { post, parameters: [...WRITE, ...parameters] };
  }

  #connect(method: string, suffix: string, kind: Kind = this.#kind): Operation {
    const { namespaced } = this.#resource;
    return {
      tags: [tagOf(this.#resource)],
      description: `connect ${method.toUpperCase()} requests to ${suffix} of ${this.#resource.kind}`,
      operationId: operationId(this.#resource, {
        verb: "connect",
        method: capitalise(method),
        namespaced,
        kind: this.#resource.kind,
        suffix,
      }),
      responses: { "200": { description: "OK", content: content(["*/*"], undefined) }, ...UNAUTHORIZED },
      "x-kubernetes-action": "connect",
      "x-kubernetes-group-version-kind": kind,
    };
  }

  /** The prefix `watch`, which the parameter of that name replaces. */
  watch(suffix: "" | "List" | "ListForAllNamespaces"): PathItem {
    const event = `${META}.WatchEvent`;
    const responses = { "200": answer(event, ["application/json;stream=watch"]) };
    const action = suffix === "" ? "watch" : "watchlist";
    const parameters = [
      ...LIST,
      ...(suffix === "" ? [inPath("name")] : []),
      ...(this.#resource.namespaced && suffix !== "ListForAllNamespaces" ? [inPath("namespace")] : []),
      PRETTY,
    ];
    return { get: this.#operation(action, `watch${suffix}`, { responses }), parameters };
  }

  #changes(ref: string, kind: Kind, of: { suffix: string; verbs: readonly string[] }): PathItem {
    const { suffix, verbs } = of;
    const item: PathItem = {};
    if (verbs.includes("get")) {
      item["get"] = this.#operation("get", `read${suffix}`, { responses: { "200": answer(ref) } }, kind);
    }
    const written = { "200": answer(ref), "201": answer(ref) };
    if (verbs.includes("update")) {
      const requestBody = { required: true, content: content(["*/*"], ref) };
      const body = { parameters: WRITE, requestBody, responses: written };
      item["put"] = this.#operation("put", `replace${suffix}`, body, kind);
    }
    if (verbs.includes("patch")) {
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
    const responses = { "200": answer(`${this.#ref}List`, ["application/json;stream=watch"]) };
    return this.#operation("list", `list${suffix}`, { parameters: LIST, responses });
  }

  #operation(action: string, name: string, body: Operation, kind: Kind = this.#kind): Operation {
    const { namespaced, kind: ownKind } = this.#resource;
    const [verb = name] = /^[a-z]+(?:Collection)?/.exec(name) ?? [];
    const suffix = name.slice(verb.length);
    const isAll = suffix.endsWith("ForAllNamespaces");
    // A name of its own for what else would have that of a delete.
    const method = verb === "deleteCollection" ? { verb: "delete", method: "Collection" } : { verb };
    const id = operationId(this.#resource, {
      ...method,
      namespaced: namespaced && !isAll,
      kind: ownKind,
      suffix,
    });
    const { responses, ...rest } = body as { responses?: object };
    return {
      tags: [tagOf(this.#resource)],
      description: `${describeVerb(verb)} ${suffix === "" ? "" : `${suffix} of `}${ownKind}`,
      operationId: id,
      ...rest,
      responses: { ...responses, ...UNAUTHORIZED },
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

const VERB_TEXTS: ReadonlyMap<string, string> = new Map([
  ["deleteCollection", "delete a collection of"],
  ["list", "list or watch objects of kind"],
  ["read", "read the specified"],
  ["replace", "replace the specified"],
  ["patch", "partially update the specified"],
  ["watch", "watch changes of objects of kind"],
]);

function describeVerb(verb: string): string {
  return VERB_TEXTS.get(verb) ?? `${verb} a`;
}

/** The definition of a subresource's own kind; the resource's where it has none of its own. */
function kindSchema({ group, version, kind }: Kind, resource: DocumentedResource): string {
  const found = builtinSchema(group, version, kind)?.$ref;
  return found === undefined ? schemaName(resource) : found.slice(REF_PREFIX.length);
}
