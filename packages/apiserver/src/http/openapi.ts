import { OPENAPI_V2_PROTOBUF, openapiV2Json, openapiV2Protobuf } from "#openapi/v2.ts";
import { openapiDocument, openapiHash, openapiIndex } from "#openapi/documents.ts";
import { openapiPath } from "#openapi/types.ts";
import type { Catalog, ServedVersion } from "#registry/catalog.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import { pathNotFound } from "#status.ts";
import type { Exchange } from "./exchange.ts";

/** Unit: milliseconds. */
const YEAR_MS = 365 * 86_400_000;

interface Document {
  readonly resources: readonly ResourceDefinition[];
  readonly text: string;
  readonly hash: string;
}

/** Serves `/openapi/v2`, in protobuf to those who ask for it. */
export async function serveOpenapiV2(exchange: Exchange, version: string): Promise<void> {
  exchange.response.setHeader("Vary", "Accept");
  const wantsProtobuf = exchange.request.headers.accept?.includes("proto-openapi.spec.v2") === true;
  if (wantsProtobuf) await exchange.sendBytes(200, openapiV2Protobuf(version), OPENAPI_V2_PROTOBUF);
  else await exchange.sendJson(200, openapiV2Json(version));
}

/** Serves `/openapi/v3`. Documents are made when they are first asked for, and again when their resources change. */
export class OpenApiHandler {
  readonly #catalog: Catalog;
  readonly #documents = new Map<string, Document>();

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  async serve(exchange: Exchange, nowMs: number): Promise<void> {
    const path = exchange.pathname.replace(/^\/openapi\/v3\/?/, "");
    if (path === "") {
      const versions = [...this.#versions().values()].map((it) => it.of);
      // JSON, which a real server does not say.
      await exchange.sendText(
        200,
        JSON.stringify(openapiIndex(versions, (it) => this.#document(it)?.hash ?? "")),
      );
      return;
    }
    exchange.response.setHeader("Vary", "Accept");
    const document = this.#document(path);
    if (document === undefined) throw pathNotFound();
    const wanted = exchange.query.get("hash");
    if (wanted !== null && wanted !== document.hash) {
      const location = `/openapi/v3/${path}?hash=${document.hash}`;
      exchange.response.writeHead(301, { Location: location }).end();
      return;
    }
    if (wanted !== null) {
      exchange.response.setHeader("Cache-Control", "public, immutable");
      exchange.response.setHeader("Expires", new Date(nowMs + YEAR_MS).toUTCString());
    }
    await this.#send(exchange, document.text, document.hash);
  }

  async #send(exchange: Exchange, text: string, hash: string): Promise<void> {
    const { request, response } = exchange;
    response.setHeader("ETag", `"${hash}"`);
    if (request.headers["if-none-match"] === `"${hash}"`) {
      response.writeHead(304).end();
      return;
    }
    await exchange.sendJson(200, text);
  }

  #versions(): Map<string, { of: { group: string; version: string }; served: ServedVersion }> {
    const versions = this.#catalog
      .groups()
      .flatMap(({ group, versions: served }) =>
        served.map((it) => ({ of: { group, version: it.version }, served: it })),
      );
    return new Map(versions.map((it) => [openapiPath(it.of), it]));
  }

  #document(path: string): Document | undefined {
    const versions = this.#versions();
    // Of definitions that are gone.
    for (const known of this.#documents.keys()) if (!versions.has(known)) this.#documents.delete(known);
    const version = versions.get(path);
    if (version === undefined) return undefined;
    const { resources, reviews } = version.served;
    const known = this.#documents.get(path);
    if (known !== undefined && isSame(known.resources, resources)) return known;
    const text = JSON.stringify(openapiDocument(version.of, resources, reviews));
    const document = { resources, text, hash: openapiHash(text) };
    this.#documents.set(path, document);
    return document;
  }
}

function isSame(a: readonly ResourceDefinition[], b: readonly ResourceDefinition[]): boolean {
  return a.length === b.length && a.every((it, at) => it === b[at]);
}
