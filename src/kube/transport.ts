import type { Agent, Dispatcher } from "undici";
import { abortError, delay } from "#base/clock.ts";
import { FleetError, hasCode } from "#base/errors.ts";
import type { CounterMetric, HistogramMetric } from "#base/metrics.ts";
import { parseStatus, statusError } from "./answer.ts";
import type { ClusterConfig, Credential } from "./config.ts";
import type { RuntimeDeps } from "./deps.ts";

/** Requests to one API server: connections, credentials, retries. HTTP/1.1. */

/** Connections for calls. Watches have their own, without a bound: each holds one as long as it lives. */
const CALL_CONNECTIONS = 32;
const KEEP_ALIVE_MS = 30_000;
/** Silence on an idle TCP connection before the kernel probes it, so that a dead peer is found in about 25 s. */
const TCP_KEEPALIVE_MS = 15_000;
/** The API server ends ordinary requests after 60 s by itself (`--request-timeout`). */
const CALL_TIMEOUT_MS = 70_000;
/** client-go's bound on how often it obeys Retry-After is 10; its waits are not bounded, ours are. */
const MAX_RETRIES = 10;
const MAX_RETRY_AFTER_MS = 30_000;

export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With its query. */
  readonly path: string;
  readonly body?: string | undefined;
  readonly contentType?: string;
  readonly accept?: string;
  /** Doing it twice is doing it once: it may be sent again when the server says to come back later. */
  readonly isIdempotent: boolean;
  readonly signal?: AbortSignal | undefined;
}

interface Connections {
  readonly calls: Agent;
  readonly watches: Agent;
}
/** Connections are bound to the certificates they were opened with: new ones mean new connections. */
interface Opened {
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  readonly ca: string | undefined;
  readonly connections: Promise<Connections>;
}

interface Answer {
  readonly code: number;
  readonly retryAfterMs: number | undefined;
  readonly body: Dispatcher.ResponseData["body"];
}

export class Transport implements AsyncDisposable {
  readonly #config: ClusterConfig;
  readonly #deps: RuntimeDeps;
  readonly #origin: string;
  /** The path under which the server lives, without a slash at its end. */
  readonly #base: string;
  readonly #userAgent: string;
  readonly #requests: CounterMetric;
  readonly #durations: HistogramMetric;
  readonly #closing = new AbortController();
  readonly #onReachable = new Set<() => void>();
  #opened: Opened | undefined;
  #isAway = false;

  constructor(config: ClusterConfig, deps: RuntimeDeps, userAgent: string) {
    const url = new URL(config.server);
    this.#config = config;
    this.#deps = deps;
    this.#origin = url.origin;
    this.#base = url.pathname.replace(/\/+$/, "");
    this.#userAgent = userAgent;
    this.#requests = deps.metrics.counter({
      name: "rest_client_requests_total",
      help: "Requests to the API server, by code, method and host.",
      labels: ["code", "method", "host"],
    });
    this.#durations = deps.metrics.histogram({
      name: "rest_client_request_duration_seconds",
      help: "How long requests to the API server take, watches left out.",
      labels: ["verb", "host"],
      buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    });
  }

  /** Sends a call and gives the text of its answer. Throws for every code but 2xx. */
  async call(call: Call): Promise<string> {
    const startedMs = this.#deps.clock.monotonic();
    for (let attempt = 0; ; attempt++) {
      const answer = await this.#sendOnLiveConnection(call);
      const text = await this.#read(call, answer);
      if (answer.code >= 200 && answer.code < 300) {
        const tookMs = this.#deps.clock.monotonic() - startedMs;
        this.#durations.observe({ verb: call.method, host: this.#origin }, tookMs / 1000);
        return text;
      }
      const error = statusError(`${call.method} ${call.path}`, parseStatus(answer.code, text));
      const isBusy = answer.code === 429 || answer.code === 503;
      if (!isBusy || !call.isIdempotent || answer.retryAfterMs === undefined || attempt >= MAX_RETRIES)
        throw error;
      const waitMs = Math.min(MAX_RETRY_AFTER_MS, answer.retryAfterMs) * (1 + 0.1 * this.#deps.rng.random());
      await delay(this.#deps.clock, waitMs, call.signal ?? this.#closing.signal);
    }
  }

  /** Sends a call whose answer goes on. Throws for every code but 2xx. */
  async stream(call: Call): Promise<AsyncIterable<Uint8Array>> {
    const answer = await this.#sendWithFreshCredentials(call, "watches");
    if (answer.code >= 200 && answer.code < 300) return answer.body;
    const text = await this.#read(call, answer);
    throw statusError(`${call.method} ${call.path}`, parseStatus(answer.code, text));
  }

  /** Calls back each time the server answers again after it could not be reached. */
  onReachable(listener: () => void): Disposable {
    // Wrapped, so that one function given twice is called twice.
    const own = (): void => listener();
    this.#onReachable.add(own);
    return { [Symbol.dispose]: () => void this.#onReachable.delete(own) };
  }

  /** What a broken connection is to the caller. */
  failure(call: Call, cause: unknown): FleetError {
    if (call.signal?.aborted === true) return abortError(call.signal);
    if (this.#closing.signal.aborted) return abortError(this.#closing.signal);
    if (cause instanceof FleetError) return cause;
    this.#isAway = true;
    const message = `${call.method} ${call.path}: no answer from ${this.#config.server}`;
    return new FleetError("API_UNAVAILABLE", message, {
      cause,
      retriable: true,
      detail: { cluster: this.#config.name },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new FleetError("ABORTED", "the client is closed"));
    const connections = await this.#opened?.connections.catch(() => undefined);
    await Promise.all([connections?.calls.destroy(), connections?.watches.destroy()]);
  }

  /**
   * A kept connection may have been closed by the server just as the call went out, unseen by us. What does no harm
   * twice is sent once more, on a new connection (RFC 9110, section 9.2.2).
   */
  async #sendOnLiveConnection(call: Call): Promise<Answer> {
    try {
      return await this.#sendWithFreshCredentials(call, "calls");
    } catch (error) {
      if (!call.isIdempotent || !isCutOff(error)) throw error;
      return this.#sendWithFreshCredentials(call, "calls");
    }
  }

  /** A credential may have been renewed or revoked since it was read: on 401 it is read again, once. */
  async #sendWithFreshCredentials(call: Call, kind: "calls" | "watches"): Promise<Answer> {
    const first = await this.#send(call, kind);
    if (first.code !== 401) return first;
    await first.body.dump();
    this.#config.credentials.expire();
    return this.#send(call, kind);
  }

  async #send(call: Call, kind: "calls" | "watches"): Promise<Answer> {
    try {
      this.#closing.signal.throwIfAborted();
      call.signal?.throwIfAborted();
      const credential = await this.#config.credentials.current(call.signal);
      const connections = await this.#connectionsFor(credential);
      const isWatch = kind === "watches";
      const response = await connections[kind].request({
        origin: this.#origin,
        path: this.#base + call.path,
        method: call.method,
        headers: this.#headers(call, credential),
        body: call.body ?? null,
        ...(call.signal === undefined ? {} : { signal: call.signal }),
        headersTimeout: CALL_TIMEOUT_MS,
        bodyTimeout: isWatch ? 0 : CALL_TIMEOUT_MS,
      });
      const labels = { code: String(response.statusCode), method: call.method, host: this.#origin };
      this.#requests.add(labels);
      this.#noteAnswer();
      return {
        code: response.statusCode,
        retryAfterMs: parseRetryAfter(response.headers["retry-after"]),
        body: response.body,
      };
    } catch (cause) {
      this.#requests.add({ code: "<error>", method: call.method, host: this.#origin });
      throw this.failure(call, cause);
    }
  }

  #noteAnswer(): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    for (const listener of this.#onReachable) listener();
  }

  async #read(call: Call, answer: Answer): Promise<string> {
    try {
      return await answer.body.text();
    } catch (cause) {
      throw this.failure(call, cause);
    }
  }

  #headers(call: Call, credential: Credential): Record<string, string> {
    const authorization = authorizationOf(credential);
    return {
      ...this.#config.headers,
      "user-agent": this.#userAgent,
      accept: call.accept ?? "application/json",
      ...(call.body === undefined ? {} : { "content-type": call.contentType ?? "application/json" }),
      ...(authorization === undefined ? {} : { authorization }),
    };
  }

  #connectionsFor(credential: Credential): Promise<Connections> {
    const { certificate, key, ca } = credential;
    const present = this.#opened;
    if (
      present !== undefined &&
      present.certificate === certificate &&
      present.key === key &&
      present.ca === ca
    )
      return present.connections;
    const connections = this.#open(credential);
    this.#opened = { certificate, key, ca, connections };
    present?.connections.then(closeGently, () => {});
    return connections;
  }

  async #open(credential: Credential): Promise<Connections> {
    // Loaded on first use: it takes 45 ms, which commands that end early need not pay.
    const { Agent } = await import("./lazy-agent.ts");
    const { tlsServerName, insecureSkipTlsVerify } = this.#config;
    const { certificate, key, ca = this.#config.ca } = credential;
    const connect = {
      keepAlive: true,
      keepAliveInitialDelay: TCP_KEEPALIVE_MS,
      ...(ca === undefined ? {} : { ca }),
      ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
      ...(certificate === undefined ? {} : { cert: certificate }),
      ...(key === undefined ? {} : { key }),
      ...(insecureSkipTlsVerify === true ? { rejectUnauthorized: false } : {}),
    };
    const common = { connect, allowH2: false, pipelining: 1, keepAliveTimeout: KEEP_ALIVE_MS };
    return {
      calls: new Agent({ ...common, connections: CALL_CONNECTIONS }),
      watches: new Agent({ ...common, connections: null }),
    };
  }
}

/** What is under way goes on to its end. A failure to close harms nobody. */
function closeGently(connections: Connections): void {
  for (const agent of [connections.calls, connections.watches]) agent.close().catch(() => {});
}

/** The connection was open and was closed before an answer came. */
function isCutOff(error: unknown): boolean {
  if (!hasCode(error, "API_UNAVAILABLE") || !Error.isError(error.cause)) return false;
  const code = "code" in error.cause ? error.cause.code : undefined;
  return code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "EPIPE";
}

function authorizationOf(credential: Credential): string | undefined {
  if (credential.token !== undefined) return `Bearer ${credential.token}`;
  if (credential.username === undefined) return undefined;
  const pair = `${credential.username}:${credential.password ?? ""}`;
  return `Basic ${Buffer.from(pair, "utf8").toString("base64")}`;
}

/** Seconds, as the API server writes them; the date form of RFC 9110 counts as absent. */
function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  if (typeof header !== "string" || !/^\d{1,6}$/.test(header)) return undefined;
  return Number(header) * 1000;
}
