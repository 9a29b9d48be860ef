import type { ListMeta, Status } from "@fairlead/kube/api/meta/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { tableId } from "#registry/catalog.ts";
import { type FieldSelector, narrowedTo } from "#registry/field-selector.ts";
import type { Registry } from "#registry/registry.ts";
import type { DeleteOptions, Removal } from "#registry/removal.ts";
import type { ResourceDefinition, Verb } from "#registry/types.ts";
import type { WriteResult } from "#registry/write.ts";
import { checkPathSegment } from "#values/names.ts";
import {
  badRequest,
  methodNotAllowed,
  methodNotSupported,
  notAcceptable,
  pathNotFound,
  StatusError,
} from "#status.ts";
import type { Entry } from "#storage/entry.ts";
import { answersWhole, readDeleteOptions } from "./delete.ts";
import type { Exchange } from "./exchange.ts";
import { type Form, MetadataForm, PlainForm } from "./forms.ts";
import { type ListPage, listPage, type ListQuery, parseListQuery, parseRevision } from "./list.ts";
import { type Accepted, negotiate } from "./negotiate.ts";
import { type Addressed, deleteRequest, readObject, writeRequest } from "./objects.ts";
import { patchObject } from "./patch.ts";
import type { ResourceTarget } from "./path.ts";
import { PARTS_OF_OBJECT, subresourcesOf } from "#registry/subresources.ts";
import { serveSpecial, type SpecialServices } from "./special.ts";
import { type IncludeObject, TableForm } from "./tables.ts";
import { serveWatch, type WatchServices } from "./watch.ts";

export interface ResourceServices extends WatchServices, SpecialServices {
  readonly registry: Registry;
  readonly clock: Clock;
}

/** A request as it was authorized. */
interface Admitted {
  /** One that the resource may not have. */
  readonly verb: string;
  /** Throws where it cannot be read. */
  readonly fields: FieldSelector;
}

/** One request on a resource, with what it names found. */
interface Call {
  readonly admitted: Admitted;
  readonly exchange: Exchange;
  readonly definition: ResourceDefinition;
  readonly target: ResourceTarget;
  readonly accepted: Accepted;
}

/** Serves every request on objects and their subresources. The caller has authorized it. */
export class ResourceHandler {
  readonly #services: ResourceServices;
  readonly #plainForms = new WeakMap<ResourceDefinition, PlainForm>();
  readonly #metadataForms = new Map<string, MetadataForm>();

  constructor(services: ResourceServices) {
    this.#services = services;
  }

  async serve(exchange: Exchange, target: ResourceTarget, admitted: Admitted): Promise<void> {
    const definition = this.#definitionOf(target);
    refuseName(target.name);
    const accepted = negotiate(exchange.request.headers.accept);
    const call: Call = { exchange, definition, target, accepted, admitted };
    const verb = admitted.verb as Verb;
    if (definition.deprecationWarning !== undefined) exchange.warn(definition.deprecationWarning);
    if (target.subresource !== "") {
      await this.#serveSubresource(call, verb);
      return;
    }
    if (!definition.verbs.includes(verb) || !isRouted(call, verb)) throw methodNotAllowed();
    await this.#serveMain(call, verb);
  }

  #definitionOf({ group, version, plural, namespace, name }: ResourceTarget): ResourceDefinition {
    const definition = this.#services.registry.catalog.resource(group, version, plural);
    if (definition === undefined) throw pathNotFound();
    if (!definition.namespaced && namespace !== undefined) throw pathNotFound();
    if (definition.namespaced && namespace === undefined && name !== undefined) throw pathNotFound();
    return definition;
  }

  async #serveMain(call: Call, verb: Verb): Promise<void> {
    switch (verb) {
      case "get":
        return this.#get(call);
      case "list":
        return this.#list(call);
      case "watch":
        return this.#watch(call);
      case "create":
        return this.#create(call);
      case "update":
        return this.#update(call);
      case "patch":
        return this.#patch(call);
      case "delete":
        return this.#delete(call);
      case "deletecollection":
        return this.#deleteCollection(call);
      default:
        return verb satisfies never;
    }
  }

  async #serveSubresource(call: Call, verb: Verb): Promise<void> {
    const { definition, target } = call;
    const known = subresourcesOf(definition).find((it) => it.name === target.subresource);
    if (known === undefined || target.rest.length > 0) throw pathNotFound();
    if (!known.verbs.includes(verb))
      throw definition.isCustom ? methodNotSupported(definition, verb) : methodNotAllowed();
    if (!PARTS_OF_OBJECT.has(target.subresource)) {
      await serveSpecial(this.#services, call.exchange, this.#addressed(call));
      return;
    }
    if (verb === "get") return this.#get(call);
    return verb === "patch" ? this.#patch(call) : this.#update(call);
  }

  #addressed({ definition, target }: Call): Addressed {
    const { namespace, name, subresource } = target;
    return { definition, namespace, name, subresource };
  }

  #form({ exchange, definition, accepted }: Call): Form {
    if (accepted.as === "Table") {
      const includeObject = parseInclude(exchange.query.get("includeObject"));
      const now = (): number => this.#services.clock.now();
      return new TableForm({ definition, includeObject, metaVersion: accepted.metaVersion, now });
    }
    if (accepted.as === "PartialObjectMetadata") {
      const known = this.#metadataForms.get(accepted.metaVersion) ?? new MetadataForm(accepted.metaVersion);
      this.#metadataForms.set(accepted.metaVersion, known);
      return known;
    }
    const known = this.#plainForms.get(definition) ?? new PlainForm(definition);
    this.#plainForms.set(definition, known);
    return known;
  }

  /** Bytes of an answer; objects that a webhook has to convert are waited for. */
  #rendered(call: Call, render: (form: Form) => Buffer): Buffer | Promise<Buffer> {
    const { exchange, definition } = call;
    const form = this.#form(call);
    if (definition.isConverted !== true) return render(form);
    return this.#services.registry.read(
      () => render(form),
      () => exchange.signal,
    );
  }

  #renderedList(call: Call, entries: readonly Entry[], metadata: ListMeta): Buffer | Promise<Buffer> {
    return this.#rendered(call, (form) => {
      call.definition.prepareStored?.(entries.map((it) => it.object));
      return form.list(entries, metadata, call.accepted.prefersProtobuf);
    });
  }

  /** Selectors look at the fields of the version that is asked for. */
  #page({ definition, exchange }: Call, query: ListQuery): Promise<ListPage> {
    const { store, awaitRevision, registry } = this.#services;
    if (definition.isConverted !== true || query.fields.terms.length === 0) {
      return listPage(store, query, awaitRevision);
    }
    const read = (): Promise<ListPage> => {
      const entries = [...store.table(tableId(definition)).entries(query.namespace)];
      definition.prepareStored?.(entries.map((it) => it.object));
      return listPage(store, query, awaitRevision);
    };
    return registry.read(read, () => exchange.signal);
  }

  async #get(call: Call): Promise<void> {
    const { definition, target, exchange, accepted } = call;
    const { store, awaitRevision } = this.#services;
    const wanted = parseRevision(exchange.query.get("resourceVersion") ?? "");
    if (wanted > store.revision) await awaitRevision(wanted);
    const entry = this.#services.registry.get(definition, target.namespace, target.name ?? "");
    refuseMetadataOf(call, false);
    await exchange.sendJson(200, await this.#rendered(call, (form) => form.item(entry)), accepted.format);
  }

  async #list(call: Call): Promise<void> {
    const { definition, target, exchange, accepted, admitted } = call;
    const query = parseListQuery(definition, target.namespace, exchange.query, admitted.fields);
    refuseMetadataOf(call, true);
    const { entries, metadata } = await this.#page(call, query);
    await exchange.sendJson(200, await this.#renderedList(call, entries, metadata), accepted.format);
  }

  async #watch(call: Call): Promise<void> {
    const { definition, target, exchange, admitted } = call;
    if (call.accepted.format !== "json") throw notAcceptable(["application/json;stream=watch"]);
    const fields = narrowedTo(target.name, admitted.fields);
    const of = { definition, namespace: target.namespace, fields, form: this.#form(call) };
    await serveWatch(this.#services, exchange, of);
  }

  async #create(call: Call): Promise<void> {
    const { definition, exchange } = call;
    const request = writeRequest(exchange, this.#addressed(call));
    const object = await readObject(exchange, definition);
    await this.#services.registry.awaitPrerequisites(request, object);
    await this.#sendResult(call, await this.#services.registry.create(request, object));
  }

  async #update(call: Call): Promise<void> {
    const { exchange, definition } = call;
    const request = writeRequest(exchange, this.#addressed(call));
    const object = await readObject(exchange, definition);
    await this.#sendResult(call, await this.#services.registry.put(request, object));
  }

  async #patch(call: Call): Promise<void> {
    const request = writeRequest(call.exchange, this.#addressed(call));
    await this.#sendResult(call, await patchObject(this.#services.registry, call.exchange, request));
  }

  async #sendResult(call: Call, { object, entry, isCreated }: WriteResult): Promise<void> {
    const { accepted, exchange } = call;
    const code = isCreated ? 201 : 200;
    await exchange.letOthersIn();
    if (entry === undefined && accepted.as === undefined) {
      await exchange.sendJson(code, JSON.stringify(object), accepted.format);
      return;
    }
    const shown = entry ?? this.#services.registry.unstored(object);
    await exchange.sendJson(code, await this.#rendered(call, (form) => form.item(shown)), accepted.format);
  }

  async #delete(call: Call): Promise<void> {
    const { definition, exchange, accepted } = call;
    const options = readDeleteOptions(exchange);
    const request = deleteRequest(exchange, this.#addressed(call), options);
    const { propagationWarning } = definition.strategy;
    if (propagationWarning !== undefined && options.propagationPolicy === undefined) {
      exchange.warn(propagationWarning);
    }
    const removal = await this.#services.registry.delete(request, options);
    if (removal.isGone && !answersWhole(definition)) {
      const status = deletedStatus(definition, removal);
      await exchange.sendJson(200, JSON.stringify(status), accepted.format);
      return;
    }
    const code = !removal.isGone && options.orphanDependents === false ? 202 : 200;
    const body = await this.#rendered(call, (form) => form.item(removal.entry));
    await exchange.sendJson(code, body, accepted.format);
  }

  async #deleteCollection(call: Call): Promise<void> {
    const { definition, target, exchange, accepted, admitted } = call;
    const options = readDeleteOptions(exchange);
    const query = parseListQuery(definition, target.namespace, exchange.query, admitted.fields);
    const { registry } = this.#services;
    const page = await this.#page(call, query);
    for (const { object } of page.entries) {
      const { name, namespace, uid = "" } = object.metadata;
      try {
        // Another object may have taken the name by now: that one was not listed. A uid that the client names is the one that counts.
        const guarded = { ...options, preconditions: { uid, ...options.preconditions } };
        const of = { ...this.#addressed(call), namespace, name };
        // For admission, the request deletes a collection and does not name an object.
        const request = { ...deleteRequest(exchange, of, options), isCollection: true };
        await registry.delete(request, guarded);
      } catch (error) {
        if (!(error instanceof StatusError) || !isExpected(error, options)) throw error;
      }
    }
    // Answered as they were listed: what becomes of them takes its time.
    const body = await this.#renderedList(call, page.entries, page.metadata);
    await exchange.sendJson(200, body, accepted.format);
  }
}

/** The listed object is already deleted; a new object of the same name matters only if the client set preconditions. */
function isExpected({ code }: StatusError, { preconditions }: DeleteOptions): boolean {
  return code === 404 || (code === 409 && preconditions === undefined);
}

/** A name that is not a valid path segment cannot exist. */
function refuseName(name: string | undefined): void {
  const problem = name === undefined ? undefined : checkPathSegment(name);
  if (problem !== undefined) throw badRequest(`Name parameter invalid: ${JSON.stringify(name)}: ${problem}`);
}

/** Namespaced resources can only be read across all namespaces; a create has no name in the path. */
function isRouted({ exchange, definition, target }: Call, verb: Verb): boolean {
  // A real server routes GET alone, but for custom resources.
  if (exchange.method === "HEAD" && !definition.isCustom) return false;
  if (verb === "create" && target.name !== undefined) return false;
  const isOfAll = definition.namespaced && target.namespace === undefined && !target.isWatch;
  if (!isOfAll || verb === "list" || verb === "watch") return true;
  if (definition.isCustom) throw pathNotFound();
  return false;
}

/** A PartialObjectMetadata is not a list, and a PartialObjectMetadataList is not an object. */
function refuseMetadataOf({ accepted, definition }: Call, isList: boolean): void {
  const { as, asList = false } = accepted;
  if (as !== "PartialObjectMetadata" || asList === isList) return;
  const asked = asList ? "PartialObjectMetadataList" : "PartialObjectMetadata";
  const what = isList ? `a list (${definition.listKind})` : `not a list (${definition.kind})`;
  const message = `you requested ${asked}, but the requested object is ${what}`;
  throw new StatusError({ code: 406, reason: "NotAcceptable", message });
}

function parseInclude(value: string | null): IncludeObject {
  if (value === null || value === "" || value === "Metadata") return "Metadata";
  if (value === "None" || value === "Object") return value;
  const why = "must be 'Metadata', 'Object', 'None', or empty";
  throw badRequest(
    `Unable to convert to Table as requested: includeObject: Invalid value: ${JSON.stringify(value)}: ${why}`,
  );
}

function deletedStatus(definition: ResourceDefinition, { entry }: Removal): Status {
  const { group, plural } = definition;
  const { name, uid = "" } = entry.object.metadata;
  const details = { name, ...(group === "" ? {} : { group }), kind: plural, uid };
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details };
}
