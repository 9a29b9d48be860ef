import type { IncomingMessage } from "node:http";
import type { Clock } from "@fairlead/base/clock.ts";
import { parseDuration } from "@fairlead/base/duration.ts";
import { MASTERS_GROUP } from "#values/authorizer.ts";
import type { UserInfo } from "#values/object.ts";
import { badRequest, StatusError } from "#status.ts";
import type { ServerMeters } from "./meters.ts";
import { Outlet } from "./outlet.ts";
import type { Target } from "./path.ts";
import { receiveBody } from "./receive.ts";
import { type Holding, Room } from "./room.ts";
import { tooMany } from "./transfer.ts";

/**
 * Limits of concurrency and duration. One user gets a quarter at most of each but the last, unless stated otherwise.
 * Names and values are those of kube-apiserver's flags, if it has them.
 */
export interface LoadLimits {
  /** Requests that read, watches and streams aside. Default: 400. */
  readonly maxRequestsInflight?: number;
  /** Requests that write, once their bodies are there. For requests on Leases there are as many again. Default: 200. */
  readonly maxMutatingRequestsInflight?: number;
  /** Watches of all users. Default: 20,000. */
  readonly maxWatches?: number;
  /** Watches of one user. Default: 5000. */
  readonly maxWatchesPerUser?: number;
  /** Bodies that come, or that are worked on. Unit: bytes. Default: 256 MiB. */
  readonly maxBodyBytes?: number;
  /** Answers and events that clients have not taken yet. Unit: bytes. Default: 512 MiB. */
  readonly maxUnsentBytes?: number;
  /** Unit: milliseconds. Default: 60,000. */
  readonly requestTimeoutMs?: number;
}

const MIB = 1024 * 1024;
const DEFAULTS: Required<LoadLimits> = {
  maxRequestsInflight: 400,
  maxMutatingRequestsInflight: 200,
  maxWatches: 20_000,
  maxWatchesPerUser: 5000,
  maxBodyBytes: 256 * MIB,
  maxUnsentBytes: 512 * MIB,
  requestTimeoutMs: 60_000,
};

const READING: ReadonlySet<string> = new Set(["get", "list", "watch"]);
const STREAMS: ReadonlySet<string> = new Set(["attach", "exec", "log", "portforward", "proxy"]);

/** Of a request, what decides how long it may last. */
export interface LoadedRequest {
  readonly verb: string;
  readonly subresource: string;
  readonly user: UserInfo;
  readonly query: URLSearchParams;
  readonly target: Target;
}

const LEASES = "coordination.k8s.io";

const NOT_HELD: Disposable = { [Symbol.dispose]() {} };

/** Counts requests in flight. Excess requests are rejected with Retry-After; clients retry on their own. */
export class LoadControl {
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #meters: ServerMeters;
  readonly #reads: Room;
  readonly #writes: Room;
  /** A client that cannot renew its Lease is considered dead: other writes must not prevent renewals. */
  readonly #leases: Room;
  readonly #watches: Room;
  readonly #bodies: Room;
  readonly #unsent: Room;

  constructor(limits: LoadLimits, clock: Clock, meters: ServerMeters) {
    const all = { ...DEFAULTS, ...limits };
    this.#timeoutMs = all.requestTimeoutMs;
    this.#clock = clock;
    this.#meters = meters;
    this.#reads = new Room({ total: all.maxRequestsInflight });
    this.#writes = new Room({ total: all.maxMutatingRequestsInflight });
    this.#leases = new Room({ total: all.maxMutatingRequestsInflight });
    this.#watches = new Room({ total: all.maxWatches, perUser: all.maxWatchesPerUser });
    this.#bodies = new Room({ total: all.maxBodyBytes, isElastic: true });
    this.#unsent = new Room({ total: all.maxUnsentBytes, isElastic: true });
  }

  /** Where what is sent to `user` goes. */
  outlet(user: UserInfo): Outlet {
    const isExempt = isAdministrator(user);
    const [clock, meters] = [this.#clock, this.#meters];
    return new Outlet({ room: this.#unsent, user: user.name, isExempt, clock, meters });
  }

  /** The bytes of a body, as they come. They count until the request is answered. */
  holdBody(user: UserInfo): Holding {
    return this.#bodies.hold(user.name, isAdministrator(user));
  }

  /**
   * The body of a request that may have one: before it is there the request takes no slot, however long it takes.
   *
   * @throws {StatusError} as `receiveBody`.
   */
  async bodyOf(
    request: LoadedRequest,
    incoming: IncomingMessage,
    holding: Holding,
  ): Promise<Buffer | undefined> {
    const { target, verb, subresource } = request;
    if (target.kind === "path" || READING.has(verb) || STREAMS.has(subresource)) return undefined;
    return receiveBody(incoming, holding, this.#clock);
  }

  /**
   * Held until the request is answered. Administrators always get an answer.
   *
   * @throws {StatusError} 429 when there are too many.
   */
  enter(request: LoadedRequest): Disposable {
    const { verb, subresource, user } = request;
    if (STREAMS.has(subresource)) return NOT_HELD;
    const isExempt = isAdministrator(user);
    // Further responses would only queue behind those that the client does not read.
    if (READING.has(verb) && !isExempt && !this.#unsent.hasRoom(user.name, 1)) throw this.#refuse("unsent");
    const holding = this.#roomFor(request).hold(user.name, isExempt);
    if (!holding.tryTake(1)) throw this.#refuse("slots");
    return holding;
  }

  #roomFor({ verb, target }: LoadedRequest): Room {
    if (verb === "watch") return this.#watches;
    const isOfLease = target.kind === "resource" && target.group === LEASES && target.name !== undefined;
    if (isOfLease) return this.#leases;
    return READING.has(verb) ? this.#reads : this.#writes;
  }

  #refuse(reason: string): StatusError {
    this.#meters.rejected.add({ reason });
    return tooMany();
  }

  /** Sets the gauges to the requests in progress. */
  report(): void {
    const { inflight } = this.#meters;
    inflight.set({ request_kind: "readOnly" }, this.#reads.taken);
    inflight.set({ request_kind: "mutating" }, this.#writes.taken);
    inflight.set({ request_kind: "lease" }, this.#leases.taken);
    inflight.set({ request_kind: "watch" }, this.#watches.taken);
  }

  /**
   * Runs `work` within the time limit of the request: `timeout=`, or the server's own limit.
   *
   * @throws {StatusError} 504 if the limit is exceeded (the work continues), 400 for a malformed `timeout`.
   */
  async within(request: LoadedRequest, work: () => Promise<void>): Promise<void> {
    if (isOpenEnded(request)) return work();
    const limitMs = this.#timeoutOf(request.query);
    const late = Promise.withResolvers<never>();
    using _timer = this.#clock.after(limitMs, () => late.reject(timedOut()));
    await Promise.race([work(), late.promise]);
  }

  #timeoutOf(query: URLSearchParams): number {
    const requestTimeoutMs = this.#timeoutMs;
    const text = query.get("timeout");
    if (text === null || text === "") return requestTimeoutMs;
    const wanted = parseSigned(text);
    if (wanted === undefined) {
      const why = `time: invalid duration ${JSON.stringify(text)}`;
      throw badRequest(`invalid timeout specified in the request URL - ${why}`);
    }
    return wanted > 0 && wanted < requestTimeoutMs ? wanted : requestTimeoutMs;
  }
}

/** Watches, and streams to pods, last as long as they last. */
export function isOpenEnded({ verb, subresource }: LoadedRequest): boolean {
  return verb === "watch" || STREAMS.has(subresource);
}

function isAdministrator(user: UserInfo): boolean {
  return user.groups.includes(MASTERS_GROUP);
}

function timedOut(): StatusError {
  const message = "Timeout: request did not complete within the allotted timeout";
  return new StatusError({ code: 504, reason: "Timeout", message, details: {} });
}

/** As Go writes durations: "1m30s". Undefined for anything else. */
function parseSigned(text: string): number | undefined {
  const wanted = parseDuration(text.replace(/^-(?!\+)/, ""));
  return wanted !== undefined && text.startsWith("-") ? -wanted : wanted;
}
