import type { Agent, Dispatcher } from "undici";
import { abortWith } from "#base/abortable.ts";
import { abortError, delay } from "#base/clock.ts";
import { FleetError, hasCode } from "#base/errors.ts";
import { parseStatus, statusError } from "./answer.ts";
import type { ClusterConfig, Credential } from "./config.ts";
import type { RuntimeDeps } from "./deps.ts";
import { currentFlow } from "./flow.ts";
import { FairLimiter } from "./limiter.ts";
import { type ClientMeters, createClientMeters } from "./meters.ts";
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
/** Errors of undici and of the system that mean that nothing came back. */
const SILENCE: ReadonlySet<string> = new Set([
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
]);

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

/** A stream that is open. */
interface Stream {
  /** On the monotonic clock. */
  readonly openedMs: number;
  readonly stop: AbortController;
}

interface Answer {
  readonly code: number;
  readonly retryAfterMs: number | undefined;
  /** Uid of the FlowSchema that the request fell under (API Priority and Fairness). */
  readonly flowSchema: string;
  readonly body: Dispatcher.ResponseData["body"];
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
  readonly #onReachable = new Set<() => void>();
  readonly #check: Disposable | undefined;
  #opened: Opened | undefined;
  readonly #streams = new Set<Stream>();
  /** Since when the server cannot be reached, and whether packets to it seem to vanish. */
  #away: { readonly sinceMs: number; readonly isSilent: boolean } | undefined;

  constructor(config: ClusterConfig, deps: RuntimeDeps, userAgent: string) {
    const url = new URL(config.server);
    this.#config = config;
    this.#deps = deps;
    this.#origin = url.origin;
    this.#base = url.pathname.replace(/\/+$/, "");
    this.#userAgent = userAgent;
    this.#serverClock = new ServerClock(deps.clock);
    this.#meters = createClientMeters(deps.metrics, url.host, {
      limiter: this.#limiter,
      serverClock: this.#serverClock,
      now: () => deps.clock.now(),
    });
    const problem = (): string | undefined => (this.#away === undefined ? undefined : "cannot be reached");
    this.#check = deps.health?.register({ name: `server/${config.name}`, kind: "note", problem });
  }

  get serverTime(): ServerTime | undefined {
    return this.#serverClock.time;
  }

  /** Sends a call and gives the text of its answer. Throws for every code but 2xx. */
  async call(call: Call): Promise<string> {
    const { clock, rng } = this.#deps;
    const startedMs = clock.monotonic();
    for (let attempt = 0, waitedMs = 0; ; attempt++) {
      const { answer, text } = await this.#inTurn(call);
      if (answer.code >= 200 && answer.code < 300) {
        this.#meters.took(call.method, clock.monotonic() - startedMs);
        return text;
      }
      const { code, retryAfterMs } = answer;
      const { isIdempotent } = call;
      const waitMs = planRetry({ code, retryAfterMs, isIdempotent, attempt, waitedMs });
      if (waitMs === undefined)
        throw statusError(`${call.method} ${call.path}`, parseStatus(answer.code, text));
      waitedMs += waitMs;
      await delay(clock, waitMs * (1 + 0.1 * rng.random()), call.signal ?? this.#closing.signal);
    }
  }

  /** What controllers write is bounded by what the server takes; reads, and all that elections need, go at once. */
  async #inTurn(call: Call): Promise<{ readonly answer: Answer; readonly text: string }> {
    const flow = call.method === "GET" ? undefined : currentFlow();
    if (flow === undefined) return this.#exchange(call);
    const startedMs = this.#deps.clock.monotonic();
    const permit = await this.#limiter.acquire(flow, call.signal);
    this.#meters.waited(this.#deps.clock.monotonic() - startedMs);
    try {
      const both = await this.#exchange(call);
      if (both.answer.code === 429) permit.release("throttled");
      return both;
    } finally {
      permit.release("done");
    }
  }

  async #exchange(call: Call): Promise<{ readonly answer: Answer; readonly text: string }> {
    const answer = await this.#sendOnLiveConnection(call);
    if (answer.code === 429) this.#meters.throttled(answer.flowSchema);
    return { answer, text: await this.#read(call, answer) };
  }

  /** Sends a call whose answer goes on. Throws for every code but 2xx. */
  async stream(call: Call): Promise<AsyncIterable<Uint8Array>> {
    const stop = new AbortController();
    if (call.signal !== undefined) abortWith(stop, call.signal);
    const answer = await this.#sendWithFreshCredentials({ ...call, signal: stop.signal }, "watches");
    if (answer.code >= 200 && answer.code < 300) return this.#watchOver(call, answer, stop);
    const text = await this.#read(call, answer);
    throw statusError(`${call.method} ${call.path}`, parseStatus(answer.code, text));
  }

  async *#watchOver(call: Call, { body }: Answer, stop: AbortController): AsyncGenerator<Uint8Array> {
    const stream = { openedMs: this.#deps.clock.monotonic(), stop };
    this.#streams.add(stream);
    try {
      yield* body as AsyncIterable<Uint8Array>;
    } catch (cause) {
      if (!stop.signal.aborted || call.signal?.aborted === true) throw cause;
      throw new FleetError("API_UNAVAILABLE", `${call.method} ${call.path}: ended with the outage`, {
        retriable: true,
      });
    } finally {
      this.#streams.delete(stream);
    }
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
    if (call.signal?.aborted === true) {
      if (hasCode(call.signal.reason, "TIMED_OUT")) this.#noteAway(true);
      return abortError(call.signal);
    }
    if (this.#closing.signal.aborted) return abortError(this.#closing.signal);
    if (cause instanceof FleetError) return cause;
    this.#noteAway(isSilence(cause));
    const message = `${call.method} ${call.path}: no answer from ${this.#config.server}`;
    return new FleetError("API_UNAVAILABLE", message, {
      cause,
      retriable: true,
      detail: { cluster: this.#config.name },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new FleetError("ABORTED", "the client is closed"));
    this.#meters[Symbol.dispose]();
    this.#check?.[Symbol.dispose]();
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
      const sentMs = this.#deps.clock.monotonic();
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
      this.#meters.answered(call.method, String(response.statusCode));
      this.#noteAnswer(response.headers, sentMs);
      return {
        code: response.statusCode,
        retryAfterMs: parseRetryAfter(response.headers["retry-after"]),
        flowSchema: headerOf(response.headers, "x-kubernetes-pf-flowschema-uid"),
        body: response.body,
      };
    } catch (cause) {
      this.#meters.answered(call.method, "<error>");
      throw this.failure(call, cause);
    }
  }

  #noteAway(isSilent: boolean): void {
    const { sinceMs = this.#deps.clock.monotonic(), isSilent: was = false } = this.#away ?? {};
    this.#away = { sinceMs, isSilent: was || isSilent };
    if (!isSilent) return;
    // Connections that swallow what is sent: later calls go on new ones, and those under way come to their end.
    this.#opened?.connections.then(closeGently, () => {});
    this.#opened = undefined;
  }

  #noteAnswer(headers: Dispatcher.ResponseData["headers"], sentMs: number): void {
    this.#serverClock.observe(headerOf(headers, "date"), sentMs, this.#deps.clock.monotonic());
    const away = this.#away;
    if (away === undefined) return;
    this.#away = undefined;
    for (const listener of this.#onReachable) listener();
    if (!away.isSilent) return;
    // Where packets vanished, a stream may be dead without either end knowing: those from before begin anew, where they
    // stopped.
    for (const { openedMs, stop } of this.#streams)
      if (openedMs < away.sinceMs) stop.abort(new FleetError("TIMED_OUT", "opened before the outage"));
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
    const { Agent, createSecureContext } = await import("./lazy-agent.ts");
    const { tlsServerName, insecureSkipTlsVerify } = this.#config;
    const { certificate, key, ca = this.#config.ca } = credential;
    const connect = {
      keepAlive: true,
      keepAliveInitialDelay: TCP_KEEPALIVE_MS,
      // One for all connections: each watch has its own, and reading certificates takes as long as a handshake.
      secureContext: createSecureContext({
        ...(ca === undefined ? {} : { ca }),
        ...(certificate === undefined ? {} : { cert: certificate }),
        ...(key === undefined ? {} : { key }),
      }),
      ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
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

/** The server did not refuse: nothing came back at all. */
function isSilence(cause: unknown): boolean {
  const code = Error.isError(cause) && "code" in cause ? cause.code : undefined;
  return typeof code === "string" && SILENCE.has(code);
}

function headerOf(headers: Dispatcher.ResponseData["headers"], name: string): string {
  const value = headers[name];
  return typeof value === "string" ? value : "";
}
