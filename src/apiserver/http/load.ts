import type { Clock } from "#base/clock.ts";
import { parseDuration } from "#base/duration.ts";
import { MASTERS_GROUP } from "../auth/types.ts";
import type { UserInfo } from "../registry/types.ts";
import { badRequest, StatusError, tooManyRequests } from "../status.ts";

/** How much is served at once, and for how long. Names and values are those of the real server's flags. */
export interface LoadLimits {
  /** Requests that read, watches and streams aside. Default: 400. */
  readonly maxRequestsInflight?: number;
  /** Requests that write; each holds its body, 3 MiB at most. Default: 200. */
  readonly maxMutatingRequestsInflight?: number;
  /** Watches of all users. Default: 20,000. */
  readonly maxWatches?: number;
  /** Watches of one user. Default: 5000. */
  readonly maxWatchesPerUser?: number;
  /** Unit: milliseconds. Default: 60,000. */
  readonly requestTimeoutMs?: number;
}

const DEFAULTS = {
  maxRequestsInflight: 400,
  maxMutatingRequestsInflight: 200,
  maxWatches: 20_000,
  maxWatchesPerUser: 5000,
  requestTimeoutMs: 60_000,
};

/** Unit: seconds. */
const RETRY_AFTER = 1;
const READING: ReadonlySet<string> = new Set(["get", "list", "watch"]);
const STREAMS: ReadonlySet<string> = new Set(["attach", "exec", "log", "portforward", "proxy"]);

/** Of a request, what decides how long it may last. */
export interface LoadedRequest {
  readonly verb: string;
  readonly subresource: string;
  readonly user: UserInfo;
  readonly query: URLSearchParams;
}

const NOT_HELD: Disposable = { [Symbol.dispose]() {} };

/** Counts what is under way. More than fits is told to come again, which clients do by themselves. */
export class LoadControl {
  readonly #limits: Required<LoadLimits>;
  readonly #clock: Clock;
  #reads = 0;
  #writes = 0;
  #watches = 0;
  readonly #watchesByUser = new Map<string, number>();

  constructor(limits: LoadLimits, clock: Clock) {
    this.#limits = { ...DEFAULTS, ...limits };
    this.#clock = clock;
  }

  /**
   * Held until the request is answered. Administrators always get an answer.
   *
   * @throws {StatusError} 429 when there are too many.
   */
  enter({ verb, subresource, user }: LoadedRequest): Disposable {
    const isExempt = user.groups.includes(MASTERS_GROUP);
    if (STREAMS.has(subresource)) return NOT_HELD;
    if (verb === "watch") return this.#enterWatch(user, isExempt);
    const reads = READING.has(verb);
    const limit = reads ? this.#limits.maxRequestsInflight : this.#limits.maxMutatingRequestsInflight;
    if (!isExempt && (reads ? this.#reads : this.#writes) >= limit) throw tooMany();
    this.#count(reads, 1);
    return { [Symbol.dispose]: () => this.#count(reads, -1) };
  }

  #count(reads: boolean, change: number): void {
    if (reads) this.#reads += change;
    else this.#writes += change;
  }

  #enterWatch({ name }: UserInfo, isExempt: boolean): Disposable {
    const ofUser = this.#watchesByUser.get(name) ?? 0;
    const { maxWatches, maxWatchesPerUser } = this.#limits;
    if (!isExempt && (this.#watches >= maxWatches || ofUser >= maxWatchesPerUser)) throw tooMany();
    this.#watches += 1;
    this.#watchesByUser.set(name, ofUser + 1);
    return {
      [Symbol.dispose]: () => {
        this.#watches -= 1;
        const left = (this.#watchesByUser.get(name) ?? 1) - 1;
        if (left === 0) this.#watchesByUser.delete(name);
        else this.#watchesByUser.set(name, left);
      },
    };
  }

  /**
   * Runs what answers a request, for as long as it may take: `timeout=`, or the server's own limit.
   *
   * @throws {StatusError} 504 when that is over, 400 for a `timeout` that is none. The work itself goes on.
   */
  async within(request: LoadedRequest, work: () => Promise<void>): Promise<void> {
    if (request.verb === "watch" || STREAMS.has(request.subresource)) return work();
    const limitMs = this.#timeoutOf(request.query);
    const late = Promise.withResolvers<never>();
    using _timer = this.#clock.after(limitMs, () => late.reject(timedOut()));
    await Promise.race([work(), late.promise]);
  }

  #timeoutOf(query: URLSearchParams): number {
    const { requestTimeoutMs } = this.#limits;
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

function tooMany(): StatusError {
  return tooManyRequests("Too many requests, please try again later.", RETRY_AFTER);
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
