import { parseExact } from "@fairlead/base/exact-json.ts";
import type { IncomingMessage } from "node:http";
import { Agent, request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import type { Clock } from "@fairlead/base/clock.ts";
import type { ClientConfig } from "./hooks.ts";
import type { Address, ServiceResolver } from "./resolver.ts";

/** Calls of webhooks, for admission and for conversion: JSON over HTTPS. Source: k8s.io/apiserver, pkg/util/webhook. */

/** The maximum size of a webhook's response. Unit: bytes. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
/** Configurations that keep connections. Authorities are renewed, and webhooks come and go: those used last are kept. */
const MAX_AGENTS = 256;
/** How much of an unsuccessful response is shown. Unit: characters. */
const MAX_SHOWN = 2048;

export interface WebhookCall {
  readonly config: ClientConfig;
  readonly body: unknown;
  /** Unit: milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface WebhookClientOptions {
  readonly resolve: ServiceResolver;
  readonly clock: Clock;
  readonly userAgent: string;
}

interface Target {
  /** The URL as messages show it. */
  readonly shown: string;
  /** The name that the certificate must be valid for. */
  readonly hostname: string;
  readonly hostHeader: string;
  readonly path: string;
  readonly connectTo: Address;
}

export class WebhookClient implements Disposable {
  readonly #options: WebhookClientOptions;
  /** By authority and server name: connections are kept, and only shared by those who verify alike. */
  readonly #agents = new Map<string, Agent>();

  constructor(options: WebhookClientOptions) {
    this.#options = options;
  }

  /**
   * POSTs `body`, and returns what was answered, parsed.
   *
   * @throws {Error} worded as Go's client says it.
   */
  async call({ config, body, timeoutMs, signal }: WebhookCall): Promise<unknown> {
    const target = this.#locate(config, timeoutMs);
    using deadline = startTimer(this.#options.clock, timeoutMs);
    const stop = AbortSignal.any([signal, deadline.signal]);
    try {
      return parseAnswer(await this.#post(target, config, JSON.stringify(body), stop));
    } catch (error) {
      if (error instanceof AnswerError) throw error;
      const why = stop.aborted ? "context deadline exceeded" : describe(error, target);
      throw new Error(`Post ${JSON.stringify(target.shown)}: ${why}`, { cause: error });
    }
  }

  #locate({ url, service }: ClientConfig, timeoutMs: number): Target {
    const query = `?timeout=${Math.ceil(timeoutMs / 1000)}s`;
    if (service === undefined) {
      const { protocol, host, hostname, pathname, port } = new URL(url ?? "");
      const bare = hostname.replace(/^\[|\]$/g, "");
      // As Go's client cleans it: controller-runtime's envtest writes two slashes.
      const path = pathname.replace(/\/{2,}/g, "/") + query;
      const connectTo = { host: bare, port: port === "" ? 443 : Number(port) };
      return { shown: `${protocol}//${host}${path}`, hostname: bare, hostHeader: host, path, connectTo };
    }
    const { namespace, name, port = 443, path: given = "/" } = service;
    const hostname = `${name}.${namespace}.svc`;
    const hostHeader = `${hostname}:${port}`;
    const path = (given.startsWith("/") ? given : `/${given}`) + query;
    const shown = `https://${hostHeader}${path}`;
    try {
      return {
        shown,
        hostname,
        hostHeader,
        path,
        connectTo: this.#options.resolve({ namespace, name, port }),
      };
    } catch (error) {
      throw new Error(`Post ${JSON.stringify(shown)}: ${(error as Error).message}`, { cause: error });
    }
  }

  async #post(target: Target, config: ClientConfig, body: string, signal: AbortSignal): Promise<Answer> {
    try {
      return await this.#send(target, config, body, signal);
    } catch (error) {
      // The other end may have closed a kept connection just then.
      if (!(error instanceof StaleConnection)) throw error;
      return this.#send(target, config, body, signal);
    }
  }

  #send(target: Target, config: ClientConfig, body: string, signal: AbortSignal): Promise<Answer> {
    const { hostname, connectTo, path, hostHeader } = target;
    return new Promise((resolve, reject) => {
      const outgoing = httpsRequest({
        agent: this.#agentFor(config.caBundle ?? "", hostname),
        ...connectTo,
        // No name is sent for an address (RFC 6066); the certificate is checked against it all the same.
        ...(isIP(hostname) === 0 ? { servername: hostname } : {}),
        method: "POST",
        path,
        signal,
        headers: {
          Host: hostHeader,
          "User-Agent": this.#options.userAgent,
          Accept: "application/json, */*",
          "Content-Type": "application/json",
          "Content-Length": Buffer.byteLength(body),
        },
      });
      outgoing.once("error", (error: NodeJS.ErrnoException) =>
        reject(outgoing.reusedSocket && error.code === "ECONNRESET" ? new StaleConnection() : error),
      );
      outgoing.once("response", (answer) => void readAnswer(answer).then(resolve, reject));
      outgoing.end(body);
    });
  }

  #agentFor(caBundle: string, servername: string): Agent {
    const key = `${servername}\n${caBundle}`;
    let agent = this.#agents.get(key);
    if (agent !== undefined) this.#agents.delete(key);
    else {
      const ca = caBundle === "" ? {} : { ca: Buffer.from(caBundle, "base64").toString("utf8") };
      // As in Go, a certificate of the bundle is trusted though it is not an authority: envtest gives the serving certificate itself.
      agent = new Agent({ keepAlive: true, timeout: 90_000, allowPartialTrustChain: true, ...ca });
    }
    this.#agents.set(key, agent);
    const [oldest] = this.#agents.keys();
    if (this.#agents.size > MAX_AGENTS && oldest !== undefined) this.#agents.delete(oldest);
    return agent;
  }

  [Symbol.dispose](): void {
    for (const agent of this.#agents.values()) agent.destroy();
    this.#agents.clear();
  }
}

class StaleConnection extends Error {}

async function readAnswer(answer: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES) throw new AnswerError("the answer is too large");
    chunks.push(chunk);
  }
  return { code: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString("utf8") };
}

interface Answer {
  readonly code: number;
  readonly text: string;
}

/** The webhook was reached, but its response is invalid. */
class AnswerError extends Error {}

function parseAnswer({ code, text }: Answer): unknown {
  if (code < 200 || code > 299) throw new AnswerError(describeCode(code, text));
  try {
    return parseExact(text);
  } catch (error) {
    throw new AnswerError(`couldn't get version/kind; json parse error: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** As client-go words answers that carry no Status. */
function describeCode(code: number, text: string): string {
  switch (code) {
    case 400:
      return "the server rejected our request for an unknown reason";
    case 401:
      return "the server has asked for the client to provide credentials";
    case 403:
      return text.trim() === "" ? "forbidden" : text.trim().slice(0, MAX_SHOWN);
    case 404:
      return "the server could not find the requested resource";
    case 405:
      return "the server does not allow this method on the requested resource";
    case 429:
      return "the server has received too many requests and has asked us to try again later";
    case 503:
      return "the server is currently unable to handle the request";
    case 504:
      return `the server was unable to return a response in the time allotted, but may still be processing the request`;
    default:
      if (code < 500)
        return `the server responded with the status code ${code} but did not return more information`;
      return `an error on the server (${JSON.stringify(text.trim().slice(0, MAX_SHOWN) || "unknown")}) has prevented the request from succeeding`;
  }
}

const UNTRUSTED = "certificate signed by unknown authority";
const OUT_OF_TIME = "certificate has expired or is not yet valid";
/** Go's messages for certificate errors, by the codes of OpenSSL. */
const CERTIFICATE_PROBLEMS: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  CERT_SIGNATURE_FAILURE: UNTRUSTED,
  CERT_HAS_EXPIRED: OUT_OF_TIME,
  CERT_NOT_YET_VALID: OUT_OF_TIME,
};
const CONNECT_PROBLEMS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  EHOSTUNREACH: "no route to host",
  ENETUNREACH: "network is unreachable",
};

/** The message of Go's client for the same error. */
function describe(error: unknown, { hostname, connectTo }: Target): string {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  const certificate =
    code === "ERR_TLS_CERT_ALTNAME_INVALID"
      ? `certificate is not valid for ${hostname}`
      : CERTIFICATE_PROBLEMS[code];
  if (certificate !== undefined) return `tls: failed to verify certificate: x509: ${certificate}`;
  const connect = CONNECT_PROBLEMS[code];
  if (connect !== undefined) {
    const host = isIP(connectTo.host) === 6 ? `[${connectTo.host}]` : connectTo.host;
    return `dial tcp ${host}:${connectTo.port}: connect: ${connect}`;
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return `dial tcp: lookup ${hostname}: no such host`;
  return code === "ECONNRESET" ? "EOF" : message;
}

function startTimer(clock: Clock, timeoutMs: number): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const timer = clock.after(timeoutMs, () => controller.abort());
  return { signal: controller.signal, [Symbol.dispose]: () => timer[Symbol.dispose]() };
}
