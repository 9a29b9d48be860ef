import { parseExact } from "@fairlead/base/exact-json.ts";
import type { IncomingMessage, ServerResponse } from "node:http";
import { gzip } from "node:zlib";
import { stringify } from "yaml";
import { finish, type Steps, type TurnQueue } from "@fairlead/base/turn.ts";
import type { Status } from "@fairlead/kube/api/meta/types.ts";
import type { UserInfo } from "#values/object.ts";
import { internalError, StatusError } from "#status.ts";
import { Warnings } from "./warnings.ts";
import { type Accepted, negotiateFormat } from "./negotiate.ts";
import { endWith, type Outlet } from "./outlet.ts";
import { LARGE_BYTES } from "#registry/size.ts";

/** Smaller answers are sent as they are: compressing them costs more than it saves. Unit: bytes. */
const MIN_GZIP_BYTES = 128 * 1024;
/** Larger answers are not made easier to read: that keeps others waiting, for half a second per MiB of YAML. Unit: bytes. */
const MAX_REWRITTEN_BYTES = 128 * 1024;
const BROWSERS = /^(curl|Wget|Mozilla)\//;

const NO_BODY = Buffer.alloc(0);

export interface ExchangeParts {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly user: UserInfo;
  readonly outlet: Outlet;
  readonly turns: TurnQueue;
  readonly body?: Buffer | undefined;
}

/** One request with its answer. */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly pathname: string;
  readonly query: URLSearchParams;
  readonly user: UserInfo;
  readonly outlet: Outlet;
  /** Of a request that writes. */
  readonly body: Buffer;
  readonly #turns: TurnQueue;
  readonly #warnings = new Warnings();
  #gone: AbortController | undefined;

  constructor({ request, response, user, outlet, turns, body = NO_BODY }: ExchangeParts) {
    this.request = request;
    this.response = response;
    this.outlet = outlet;
    this.#turns = turns;
    this.body = body;
    const { pathname, query } = splitUrl(request.url ?? "/");
    this.pathname = pathname;
    this.query = query;
    this.user = user;
  }

  get method(): string {
    return this.request.method ?? "GET";
  }

  /** Aborts when the client goes away before it has its answer. */
  get signal(): AbortSignal {
    if (this.#gone === undefined) {
      const gone = new AbortController();
      this.#gone = gone;
      this.response.once("close", () => {
        if (!this.response.writableFinished) gone.abort();
      });
    }
    return this.#gone.signal;
  }

  /** Does work on the body: on a large one in pieces, between which other requests and health checks are served. */
  async finish<T>(steps: Steps<T>): Promise<T> {
    return this.isLarge ? this.#turns.finish(steps) : finish(steps);
  }

  /** As between two pieces of such work. */
  async letOthersIn(): Promise<void> {
    if (this.isLarge) await this.#turns.next();
  }

  get isLarge(): boolean {
    return this.body.length > LARGE_BYTES;
  }

  /** Text that kubectl and client-go print. */
  warn(message: string): void {
    this.#warnings.add(message);
  }

  #setHeaders(): void {
    const texts = this.#warnings.shown();
    if (texts.length === 0) return;
    this.response.setHeader(
      "Warning",
      texts.map((it) => `299 - "${headerText(it)}"`),
    );
  }

  /** Sends bytes of JSON, rewritten as the client wants to see them. */
  async sendJson(code: number, json: Buffer | string, format: Accepted["format"] = "json"): Promise<void> {
    const { response } = this;
    this.#setHeaders();
    const body = this.#formatted(json, format);
    response.setHeader("Content-Type", format === "yaml" ? "application/yaml" : "application/json");
    await this.#send(code, body);
  }

  #formatted(json: Buffer | string, format: Accepted["format"]): Buffer {
    const bytes = typeof json === "string" ? Buffer.from(json, "utf8") : json;
    // JSON is YAML as well.
    if (bytes.length > MAX_REWRITTEN_BYTES) return bytes;
    if (format === "yaml") return Buffer.from(stringify(parseExact(bytes.toString("utf8"))), "utf8");
    if (!this.#wantsPretty()) return bytes;
    return Buffer.from(`${JSON.stringify(parseExact(bytes.toString("utf8")), null, 2)}\n`, "utf8");
  }

  #wantsPretty(): boolean {
    const asked = this.query.get("pretty");
    if (asked !== null) return asked !== "0" && asked !== "false";
    return BROWSERS.test(this.request.headers["user-agent"] ?? "");
  }

  async sendText(code: number, text: string, type = "text/plain; charset=utf-8"): Promise<void> {
    this.#setHeaders();
    this.response.setHeader("Content-Type", type);
    await this.#send(code, Buffer.from(text, "utf8"));
  }

  /** Sends a response whose media type is fixed. */
  async sendBytes(code: number, bytes: Buffer, type: string): Promise<void> {
    this.#setHeaders();
    this.response.setHeader("Content-Type", type);
    await this.#send(code, bytes);
  }

  /** 204: there is nothing to answer with. */
  async sendNothing(): Promise<void> {
    this.#setHeaders();
    await new Promise<void>((resolve) => this.response.writeHead(204).end(resolve));
  }

  async #send(code: number, body: Buffer): Promise<void> {
    const { response } = this;
    const accepts = this.request.headers["accept-encoding"] ?? "";
    const isZipped = body.length > MIN_GZIP_BYTES && /\bgzip\b/.test(accepts);
    const bytes = isZipped ? await gzipped(body) : body;
    this.outlet.reserve(response, bytes.length);
    if (isZipped) response.setHeader("Content-Encoding", "gzip");
    response.setHeader("Content-Length", bytes.length);
    response.writeHead(code);
    if (this.method === "HEAD") response.end();
    else endWith(response, bytes);
  }

  /** Sends the head at once; what follows is written to `response` as it comes. */
  startStream(type: string): void {
    this.#setHeaders();
    this.response.writeHead(200, { "Content-Type": type, "Transfer-Encoding": "chunked" });
    this.response.flushHeaders();
  }

  sendStatus(status: Status, code: number): Promise<void> {
    return this.sendJson(code, JSON.stringify(status), errorFormat(this.request.headers.accept));
  }

  /** Refuses the request; what has no Status becomes an internal error. */
  async sendError(error: unknown): Promise<void> {
    const { status, code } = error instanceof StatusError ? error : internalError(textOf(error));
    const { response } = this;
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const retryAfter = status.details?.retryAfterSeconds;
    if (retryAfter !== undefined && code !== 409) response.setHeader("Retry-After", retryAfter);
    await this.sendStatus(status, code);
  }
}

/** Refusals are not refused: what cannot be given as the client wants it is JSON. */
function errorFormat(accept: string | undefined): Accepted["format"] {
  try {
    return negotiateFormat(accept);
  } catch {
    return "json";
  }
}

/** `URL` is not used: it would resolve dots and escape what authorization has to see as it was sent. */
export function splitUrl(url: string): { pathname: string; query: URLSearchParams } {
  const at = url.indexOf("?");
  if (at < 0) return { pathname: url, query: new URLSearchParams() };
  return { pathname: url.slice(0, at), query: new URLSearchParams(url.slice(at + 1)) };
}

function gzipped(body: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    gzip(body, { level: 1 }, (error, result) => {
      if (error === null) resolve(result);
      else reject(error);
    });
  });
}

function textOf(error: unknown): string {
  return Error.isError(error) ? error.message : String(error);
}

/** A header value holds printable ASCII only; quotes and backslashes are escaped (RFC 7234, section 5.5). */
function headerText(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, "?").replaceAll(/["\\]/g, "\\$&");
}
