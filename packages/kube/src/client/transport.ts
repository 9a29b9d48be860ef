import { defined } from "@fairlead/base/defined.ts";
import type { Pool } from "undici";
import { withoutTrailing } from "@fairlead/base/text.ts";
import { abortError, delay } from "@fairlead/base/clock.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { parseStatus, statusError } from "./status-error.ts";
import type { ClusterConfig, Credential } from "#config/config.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { currentFlow } from "./flow.ts";
import { type HttpResponse, type HttpBody, sendRequest } from "./http.ts";
import { FairLimiter } from "./limiter.ts";
import { type ClientMeters, createClientMeters } from "./meters.ts";
import { type Exchange, isCutOff, Reachability } from "./reachability.ts";
import { parseRetryAfter, planRetry } from "./retry.ts";
import { ServerClock, type ServerTime } from "./server-clock.ts";

/** Requests to one API server: connections, credentials, retries. HTTP/1.1. */

/** Connections for calls. Watches have their own, without a bound: each holds one as long as it lives. */
const CALL_CONNECTIONS = 64;
const KEEP_ALIVE_MS = 30_000;
/** Silence on an idle TCP connection before the kernel probes it, so that a dead peer is found in about 25 s. */
const TCP_KEEPALIVE_MS = 15_000;
/** The API server ends ordinary requests after 60 s by itself (`--request-timeout`). */
const CALL_TIMEOUT_MS = 70_000;

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
  /** See `CallOptions`. */
  readonly silentAfterMs?: number | undefined;
}

interface Connections {
  readonly calls: Pool;
  readonly watches: Pool;
}
/** Connections are bound to the certificates they were opened with: new ones mean new connections. */
interface Opened {
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  readonly ca: string | undefined;
  readonly connections: Promise<Connections>;
}

interface ResponseHead {
  readonly code: number;
  readonly retryAfterMs: number | undefined;
  /** Uid of the FlowSchema that the request fell under (API Priority and Fairness). */
  readonly flowSchema: string;
  readonly body: HttpBody;
  /** To be disposed of when the body is read. */
  readonly exchange: Exchange;
}

export class Transport implements AsyncDisposable {
  readonly #config: ClusterConfig;
  readonly #deps: RuntimeDeps;
  readonly #origin: string;
  /** The path under which the server lives, without a slash at its end. */
  readonly #base: string;
  readonly #userAgent: string;
  readonly #limiter = new FairLimiter();
  readonly #serverClock: ServerClock;
  readonly #meters: ClientMeters;
  readonly #closing = new AbortController();
  readonly #reach: Reachability;
  readonly #check: Disposable | undefined;
  #opened: Opened | undefined;

  constructor(config: ClusterConfig, deps: RuntimeDeps, userAgent: string) {
    const url = new URL(config.server);
    this.#config = config;
    this.#deps = deps;
    this.#origin = url.origin;
    this.#base = withoutTrailing(url.pathname, "/");
    this.#userAgent = userAgent;
    this.#serverClock = new ServerClock(deps.clock);
    this.#meters = createClientMeters(deps.metrics, url.host, {
      limiter: this.#limiter,
      serverClock: this.#serverClock,
      now: () => deps.clock.now(),
    });
    this.#reach = new Reachability({
      clock: deps.clock,
      rng: deps.rng,
      onSuspicion: () => this.#abandonConnections(),
      probe: (signal) => this.#probe(signal),
    });
    const problem = (): string | undefined => (this.#reach.isAway ? "cannot be reached" : undefined);
    this.#check = deps.health?.register({ name: `server/${config.name}`, kind: "note", problem });
  }

  get serverTime(): ServerTime | undefined {
    return this.#serverClock.time;
  }

  /** Sends a call and gives the text of its response. Throws for every code but 2xx. */
  async call(call: Call): Promise<string> {
    const { clock, rng } = this.#deps;
    const startedMs = clock.monotonic();
    for (let attempt = 0, waitedMs = 0; ; attempt++) {
      const { response, text } = await this.#inTurn(call);
      if (response.code >= 200 && response.code < 300) {
        this.#meters.took(call.method, clock.monotonic() - startedMs);
        return text;
      }
      const { code, retryAfterMs } = response;
      const { isIdempotent } = call;
      const waitMs = planRetry({ code, retryAfterMs, isIdempotent, attempt, waitedMs });
      if (waitMs === undefined)
        throw statusError(`${call.method} ${call.path}`, parseStatus(response.code, text));
      waitedMs += waitMs;
      await delay(clock, waitMs * (1 + 0.1 * rng.random()), call.signal ?? this.#closing.signal);
    }
  }

  /** Writes of controllers are limited by what the server accepts; reads, and all requests of elections, are sent at once. */
  async #inTurn(call: Call): Promise<{ readonly response: ResponseHead; readonly text: string }> {
    const flow = call.method === "GET" ? undefined : currentFlow();
    if (flow === undefined) return this.#exchange(call);
    const startedMs = this.#deps.clock.monotonic();
    const permit = await this.#limiter.acquire(flow, call.signal);
    this.#meters.waited(this.#deps.clock.monotonic() - startedMs);
    try {
      const both = await this.#exchange(call);
      if (both.response.code === 429) permit.release("throttled");
      return both;
    } finally {
      permit.release("done");
    }
  }

  async #exchange(call: Call): Promise<{ readonly response: ResponseHead; readonly text: string }> {
    const response = await this.#sendOnLiveConnection(call);
    if (response.code === 429) this.#meters.throttled(response.flowSchema);
    return { response, text: await this.#read(call, response) };
  }

  /** Sends a call with a streamed response. Throws for every code but 2xx. */
  async stream(call: Call): Promise<AsyncIterable<Uint8Array>> {
    const response = await this.#sendWithFreshCredentials(call, "watches");
    if (response.code >= 200 && response.code < 300) return this.#passOn(call, response);
    const text = await this.#read(call, response);
    throw statusError(`${call.method} ${call.path}`, parseStatus(response.code, text));
  }

  async *#passOn(call: Call, { body, exchange }: ResponseHead): AsyncGenerator<Uint8Array> {
    using _underWay = exchange;
    try {
      for await (const chunk of body) {
        exchange.noteAnswer();
        yield chunk;
      }
    } catch (cause) {
      throw exchange.isLost ? this.#lost(call, exchange) : cause;
    }
  }

  /** Calls back each time the server answers again after it could not be reached. */
  onReachable(listener: () => void): Disposable {
    return this.#reach.onReachable(listener);
  }

  /** Everybody may ask for the version; whatever comes back is a response. */
  async #probe(signal: AbortSignal): Promise<void> {
    const call: Call = { method: "GET", path: "/version", isIdempotent: true, signal };
    const response = await this.#send(call, "calls").catch(() => undefined);
    if (response !== undefined) await this.#read(call, response).catch(() => {});
  }

  /** The error of a broken connection. */
  failure(call: Call, cause: unknown): FleetError {
    if (call.signal?.aborted === true) {
      if (hasCode(call.signal.reason, "TIMED_OUT")) this.#reach.noteSilence();
      return abortError(call.signal);
    }
    if (this.#closing.signal.aborted) return abortError(this.#closing.signal);
    if (cause instanceof FleetError) return cause;
    this.#reach.noteFailure(cause);
    const message = `${call.method} ${call.path}: no response from ${this.#config.server}`;
    return new FleetError("API_UNAVAILABLE", message, {
      cause,
      retriable: true,
      detail: { cluster: this.#config.name },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new FleetError("ABORTED", "the client is closed"));
    this.#reach[Symbol.dispose]();
    this.#meters[Symbol.dispose]();
    this.#check?.[Symbol.dispose]();
    const connections = await this.#opened?.connections.catch(() => undefined);
    await Promise.all([connections?.calls.destroy(), connections?.watches.destroy()]);
  }

  /**
   * A kept connection may have been closed by the server just as the call went out. An idempotent call is sent again on a
   * new connection (RFC 9110, section 9.2.2).
   */
  async #sendOnLiveConnection(call: Call): Promise<ResponseHead> {
    try {
      return await this.#sendWithFreshCredentials(call, "calls");
    } catch (error) {
      if (!call.isIdempotent || !isCutOff(error)) throw error;
      return this.#sendWithFreshCredentials(call, "calls");
    }
  }

  /** A credential may have been renewed or revoked since it was read: on 401 it is read again, once. */
  async #sendWithFreshCredentials(call: Call, kind: "calls" | "watches"): Promise<ResponseHead> {
    const first = await this.#send(call, kind);
    if (first.code !== 401) return first;
    await this.#read(call, first);
    this.#config.credentials.expire();
    return this.#send(call, kind);
  }

  async #send(call: Call, kind: "calls" | "watches"): Promise<ResponseHead> {
    let exchange: Exchange | undefined;
    try {
      this.#closing.signal.throwIfAborted();
      call.signal?.throwIfAborted();
      const credential = await this.#config.credentials.current(call.signal);
      const connections = await this.#connectionsFor(credential);
      exchange = this.#reach.begin(call.signal, call.silentAfterMs);
      const request = {
        path: this.#base + call.path,
        method: call.method,
        headers: this.#headers(call, credential),
        body: call.body ?? null,
        headersTimeout: CALL_TIMEOUT_MS,
        bodyTimeout: kind === "watches" ? 0 : CALL_TIMEOUT_MS,
      };
      const response = await sendRequest(connections[kind], request, exchange.signal);
      this.#meters.answered(call.method, String(response.statusCode));
      this.#noteResponse(response.headers, exchange);
      return {
        code: response.statusCode,
        retryAfterMs: parseRetryAfter(response.headers["retry-after"]),
        flowSchema: headerOf(response.headers, "x-kubernetes-pf-flowschema-uid"),
        body: response.body,
        exchange,
      };
    } catch (cause) {
      exchange?.[Symbol.dispose]();
      this.#meters.answered(call.method, "<error>");
      throw exchange?.isLost === true ? this.#lost(call, exchange) : this.failure(call, cause);
    }
  }

  #noteResponse(headers: HttpResponse["headers"], exchange: Exchange): void {
    this.#serverClock.observe(headerOf(headers, "date"), exchange.sentMs, this.#deps.clock.monotonic());
    this.#reach.noteResponse(exchange);
  }

  /** Sends later calls on new connections; calls in flight are completed on the old ones. */
  #abandonConnections(): void {
    this.#opened?.connections.then(closeGently, () => {});
    this.#opened = undefined;
  }

  #lost({ method, path }: Call, { signal }: Exchange): FleetError {
    const message = `${method} ${path}: the connection was lost in an outage`;
    return new FleetError("API_UNAVAILABLE", message, { cause: signal.reason, retriable: true });
  }

  async #read(call: Call, { body, exchange }: ResponseHead): Promise<string> {
    using _underWay = exchange;
    try {
      return await body.text();
    } catch (cause) {
      throw exchange.isLost ? this.#lost(call, exchange) : this.failure(call, cause);
    }
  }

  #headers(call: Call, credential: Credential): Record<string, string> {
    const authorization = authorizationOf(credential);
    return {
      ...this.#config.headers,
      "user-agent": this.#userAgent,
      accept: call.accept ?? "application/json",
      ...(call.body === undefined ? {} : { "content-type": call.contentType ?? "application/json" }),
      ...defined({ authorization }),
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
    const { Pool, buildConnector, createSecureContext } = await import("./lazy-pool.ts");
    const { tlsServerName, insecureSkipTlsVerify } = this.#config;
    const { certificate, key, ca = this.#config.ca } = credential;
    // One for both, so that connections resume the TLS session of an earlier one: half of a handshake.
    const connect = buildConnector({
      allowH2: false,
      keepAlive: true,
      keepAliveInitialDelay: TCP_KEEPALIVE_MS,
      // One for all connections: each watch has its own, and reading certificates takes as long as a handshake.
      secureContext: createSecureContext({
        ...defined({ ca, cert: certificate, key }),
      }),
      ...defined({ servername: tlsServerName }),
      ...(insecureSkipTlsVerify === true ? { rejectUnauthorized: false } : {}),
    });
    const common = { connect, allowH2: false, pipelining: 1, keepAliveTimeout: KEEP_ALIVE_MS };
    return {
      calls: new Pool(this.#origin, { ...common, connections: CALL_CONNECTIONS }),
      watches: new Pool(this.#origin, { ...common, connections: null }),
    };
  }
}

/** Closes connections once their calls are complete. A failure to close is harmless. */
function closeGently(connections: Connections): void {
  for (const pool of [connections.calls, connections.watches]) pool.close().catch(() => {});
}

function authorizationOf(credential: Credential): string | undefined {
  if (credential.token !== undefined) return `Bearer ${credential.token}`;
  if (credential.username === undefined) return undefined;
  const pair = `${credential.username}:${credential.password ?? ""}`;
  return `Basic ${Buffer.from(pair, "utf8").toString("base64")}`;
}

function headerOf(headers: HttpResponse["headers"], name: string): string {
  const value = headers[name];
  return typeof value === "string" ? value : "";
}
