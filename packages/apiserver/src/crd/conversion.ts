import { randomUUID } from "node:crypto";
import { cloneJson, isObject } from "@fairlead/base/json.ts";
import type { ClientConfig } from "#admission/webhook/hooks.ts";
import type { WebhookClient } from "#admission/webhook/client.ts";
import { type Fields, fieldsAt, textAt } from "@fairlead/base/fields.ts";
import { Pending } from "#registry/pending.ts";
import type { ApiObject } from "#values/object.ts";
import { StatusError } from "#status.ts";
import type { Crd } from "./types.ts";

/** Conversion between the versions of a custom resource. Source: apiextensions-apiserver, pkg/apiserver/conversion. */
export interface Converter {
  /** @throws {Pending} when a webhook has to be asked. */
  convert(object: ApiObject, apiVersion: string): ApiObject;
  /** Sees to it that `convert` has what it needs for all of `objects`. @throws {Pending} when one call is needed. */
  prepare(objects: Iterable<ApiObject>, apiVersion: string): void;
}

/** Strategy `None`: nothing but the apiVersion differs. */
export const relabelling: Converter = {
  convert: (object, apiVersion) =>
    object.apiVersion === apiVersion ? object : withVersion(object, apiVersion),
  prepare() {},
};

function withVersion(object: ApiObject, apiVersion: string): ApiObject {
  const { kind, apiVersion: _apiVersion, ...rest } = object;
  return { kind, apiVersion, ...rest };
}

/** Unit: milliseconds. */
const TIMEOUT_MS = 30_000;
/** Results that are kept for objects that are not stored yet: those of the writes that are under way. */
const MAX_RECENT = 1024;
const REVIEW_VERSIONS = new Set(["v1", "v1beta1"]);

/**
 * Strategy `Webhook`. What was converted once is kept with the object that it was made from, so that any number of
 * readers and watchers costs one call; objects on their way into the store are known by what they hold.
 */
export class WebhookConverter implements Converter {
  readonly #client: WebhookClient;
  readonly #config: ClientConfig;
  readonly #reviewVersions: readonly string[];
  readonly #known = new WeakMap<ApiObject, Map<string, ApiObject>>();
  readonly #recent = new Map<string, ApiObject>();
  readonly #asked = new WeakMap<ApiObject, Map<string, Promise<void>>>();

  constructor(client: WebhookClient, { spec }: Crd) {
    this.#client = client;
    const { clientConfig = {}, conversionReviewVersions = [] } = spec.conversion?.webhook ?? {};
    this.#config = clientConfig;
    this.#reviewVersions = conversionReviewVersions;
  }

  convert(object: ApiObject, apiVersion: string): ApiObject {
    if (object.apiVersion === apiVersion) return object;
    const known = this.#find(object, apiVersion);
    if (known !== undefined) return known;
    throw new Pending((signal) => this.#askOnce([object], apiVersion, signal));
  }

  prepare(objects: Iterable<ApiObject>, apiVersion: string): void {
    const missing = [...objects].filter(
      (it) => it.apiVersion !== apiVersion && this.#find(it, apiVersion) === undefined,
    );
    if (missing.length > 0) throw new Pending((signal) => this.#askOnce(missing, apiVersion, signal));
  }

  #find(object: ApiObject, apiVersion: string): ApiObject | undefined {
    const known = this.#known.get(object)?.get(apiVersion);
    if (known !== undefined) return known;
    if (this.#recent.size === 0) return undefined;
    const recent = this.#recent.get(contentKey(object, apiVersion));
    if (recent === undefined) return undefined;
    const made = withMetadata(recent, object);
    this.#remember(object, made);
    return made;
  }

  #remember(object: ApiObject, made: ApiObject): void {
    const versions = this.#known.get(object) ?? new Map<string, ApiObject>();
    this.#known.set(object, versions.set(made.apiVersion, made));
  }

  /** Concurrent requests for the same conversion share one call. */
  async #askOnce(objects: readonly ApiObject[], apiVersion: string, signal: AbortSignal): Promise<void> {
    const waiting = new Set<Promise<void>>();
    const fresh = objects.filter((it) => {
      const asked = this.#asked.get(it)?.get(apiVersion);
      if (asked !== undefined) waiting.add(asked);
      return asked === undefined;
    });
    if (fresh.length > 0) {
      const answer = this.#ask(fresh, apiVersion, signal);
      for (const it of fresh) {
        const asked = this.#asked.get(it) ?? new Map<string, Promise<void>>();
        this.#asked.set(it, asked.set(apiVersion, answer));
      }
      const forget = (): void => {
        for (const it of fresh) this.#asked.get(it)?.delete(apiVersion);
      };
      waiting.add(answer.finally(forget));
    }
    await Promise.all(waiting);
  }

  async #ask(objects: readonly ApiObject[], desired: string, signal: AbortSignal): Promise<void> {
    const [first] = objects;
    if (first === undefined) return;
    const what = `conversion webhook for ${first.apiVersion}, Kind=${first.kind}`;
    const converted = await this.#call(objects, { desired, what, signal });
    if (converted.length !== objects.length) {
      throw failed(`${what} returned ${converted.length} objects, expected ${objects.length}`);
    }
    const isList = objects.length > 1;
    for (const [at, object] of objects.entries()) {
      const made = checkConverted(object, converted[at], { desired, what, at, isList });
      this.#remember(object, withMetadata(made, object));
      this.#keepRecent(contentKey(object, desired), made);
    }
  }

  #keepRecent(key: string, made: ApiObject): void {
    this.#recent.set(key, made);
    const [oldest] = this.#recent.keys();
    if (this.#recent.size > MAX_RECENT && oldest !== undefined) this.#recent.delete(oldest);
  }

  async #call(
    objects: readonly ApiObject[],
    {
      desired,
      what,
      signal,
    }: { readonly desired: string; readonly what: string; readonly signal: AbortSignal },
  ): Promise<readonly unknown[]> {
    const version = this.#reviewVersions.find((it) => REVIEW_VERSIONS.has(it));
    if (version === undefined) throw failed("no supported conversion review versions");
    const uid = randomUUID();
    const apiVersion = `apiextensions.k8s.io/${version}`;
    const body = {
      kind: "ConversionReview",
      apiVersion,
      request: { uid, desiredAPIVersion: desired, objects },
      response: { uid: "", convertedObjects: null, result: { metadata: {} } },
    };
    try {
      const call = { config: this.#config, body, timeoutMs: TIMEOUT_MS, signal };
      return readResponse(await this.#client.call(call), { apiVersion, uid });
    } catch (error) {
      throw failed(`${what} failed: ${(error as Error).message}`);
    }
  }
}

/** The fields of an object, except those that a write sets last. */
function contentKey({ metadata, ...rest }: ApiObject, apiVersion: string): string {
  const { resourceVersion: _resourceVersion, ...kept } = metadata;
  return `${apiVersion}\n${JSON.stringify(rest)}\n${JSON.stringify(kept)}`;
}

function failed(message: string): StatusError {
  return new StatusError({ code: 500, message });
}

/** @throws {Error} if the response is invalid, with the reason. */
function readResponse(
  review: unknown,
  { apiVersion, uid }: { readonly apiVersion: string; readonly uid: string },
): readonly unknown[] {
  const answer: Fields = isObject(review) ? review : {};
  const response = fieldsAt(answer, "response");
  if (apiVersion.endsWith("/v1")) checkIdentity(answer, { apiVersion, uid });
  if (response === undefined) throw new Error("no response provided");
  const result = fieldsAt(response, "result");
  const [status, message] = [textAt(result, "status"), textAt(result, "message")];
  if (status !== "Success") {
    throw new Error(message === "" ? `response.result.status was '${status}', not 'Success'` : message);
  }
  const { convertedObjects } = response;
  return Array.isArray(convertedObjects) ? convertedObjects : [];
}

/** v1beta1 does not ask for it. */
function checkIdentity(answer: Fields, wanted: { readonly apiVersion: string; readonly uid: string }): void {
  const [apiVersion, kind] = [textAt(answer, "apiVersion"), textAt(answer, "kind")];
  if (apiVersion !== wanted.apiVersion || kind !== "ConversionReview") {
    const got = `${apiVersion}, Kind=${kind}`;
    throw new Error(`expected webhook response of ${wanted.apiVersion}, Kind=ConversionReview, got ${got}`);
  }
  const response = fieldsAt(answer, "response");
  const uid = textAt(response, "uid");
  if (response === undefined || uid === wanted.uid) return;
  throw new Error(`expected response.uid=${JSON.stringify(wanted.uid)}, got ${JSON.stringify(uid)}`);
}

interface Place {
  readonly desired: string;
  readonly what: string;
  readonly at: number;
  readonly isList: boolean;
}

/** A webhook may change everything but who an object is. */
function checkConverted(object: ApiObject, made: unknown, { desired, what, at, isList }: Place): ApiObject {
  const refuse = (why: string, isAt = isList): never => {
    throw failed(
      `${what} returned invalid ${isList ? "converted " : ""}object${isAt ? ` at index ${at}` : ""}: ${why}`,
    );
  };
  if (!isObject(made)) return refuse("not a JSON object", true);
  const [apiVersion, kind] = [textAt(made, "apiVersion"), textAt(made, "kind")];
  if (apiVersion !== desired) {
    return refuse(`invalid groupVersion (expected ${desired}, received ${apiVersion})`, true);
  }
  if (kind !== object.kind) return refuse(`invalid kind (expected ${object.kind}, received ${kind})`, true);
  const metadata = fieldsAt(made, "metadata");
  if (metadata === undefined) {
    throw failed(`${what} returned invalid metadata: missing metadata in converted object`);
  }
  for (const field of ["name", "namespace", "uid"] as const) {
    const [was, is] = [object.metadata[field] ?? "", textAt(metadata, field)];
    if (was !== is) refuse(`must have the same ${field === "uid" ? "UID" : field}: ${was} != ${is}`);
  }
  return made as unknown as ApiObject;
}

/** Of the metadata, only labels and annotations are the webhook's to change. */
function withMetadata(made: ApiObject, { metadata }: ApiObject): ApiObject {
  const { labels: _labels, annotations: _annotations, ...kept } = metadata;
  const { labels, annotations } = made.metadata;
  const { kind, apiVersion, metadata: _metadata, ...rest } = made;
  return {
    kind,
    apiVersion,
    metadata: {
      ...kept,
      ...(labels === undefined ? {} : { labels: cloneJson(labels) }),
      ...(annotations === undefined ? {} : { annotations: cloneJson(annotations) }),
    },
    ...cloneJson(rest),
  };
}
