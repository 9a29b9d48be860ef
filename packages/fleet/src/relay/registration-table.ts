import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import type { Clock } from "@fairlead/base/clock.ts";
import { createTokenBucket, type TokenBucket } from "@fairlead/base/token-bucket.ts";
import {
  COOKIE_BYTES,
  type ControlDatagram,
  encodeControl,
  headOf,
  openControl,
  type UdpEndpoint,
} from "#dataplane/control/datagram.ts";
import { boundKey } from "#dataplane/control/frames.ts";

/** One direction between two gateways: datagrams of `from` for `to`, encrypted with keys of epochs of that parity. */
export interface Leg {
  /** Index of the gateway that sends. */
  readonly from: number;
  /** Index of the gateway that receives; datagrams come to the relay's port of this index. */
  readonly to: number;
  /** The epoch modulo 2: at most two epochs are in use, and each gateway has a socket for either. */
  readonly parity: number;
}

/** Where `from` was seen at the port of `to`: its datagrams come from there, and those of `to` are sent there. */
export interface Registration extends Leg {
  readonly source: UdpEndpoint;
  /** The address that the relay listens on at which the gateway registered; `0.0.0.0` or `::` for any. */
  readonly via: string;
}

/** One that is new, has moved or is gone. */
export interface RegistrationChange {
  readonly before: Registration | undefined;
  readonly after: Registration | undefined;
}

/** What came of a datagram: for metrics. */
export type ControlResult = "registered" | "renewed" | "challenged" | "refused";

/** How a datagram came. */
export interface Arrived {
  readonly source: UdpEndpoint;
  /** Index of the gateway whose port it came to. */
  readonly to: number;
  readonly via: string;
  /** Of the connection, if it came by one (`boundKey`). */
  readonly binding?: Uint8Array;
}

export interface ControlOutcome {
  readonly result: ControlResult;
  /** The gateway that it is of. Absent if it was refused. */
  readonly from?: number;
  readonly answer?: Uint8Array;
  readonly changes: readonly RegistrationChange[];
}

export interface RegistrationTableOptions {
  /** Key shared with gateway `index` in `epoch`; undefined if there is no such gateway or epoch. */
  readonly keyOf: (index: number, epoch: number) => KeyObject | undefined;
  /** Whether there is a gateway `index`: a frame over TLS may name any number. */
  readonly exists: (index: number) => boolean;
  /** Random; new at each start. */
  readonly secret: Uint8Array;
  readonly clock: Clock;
}

/** A gateway renews every 15 to 20 s. Longer than a cookie is valid. Unit: seconds. */
const LIFETIME_S = 180;
/** A cookie is valid for this and the next slot. Unit: milliseconds. */
const SLOT_MS = 60_000;
/**
 * Registrations of one gateway that are new or move: all of its legs at once, in both epochs, as after a restart behind a NAT,
 * and all of them again each minute. Each costs a change of what is forwarded and a line of the log.
 */
const MOVES = { burst: 2048, perSecond: 35 } as const;

interface Entry {
  readonly registration: Registration;
  readonly expiresAtMs: number;
  /** How often the address has changed. A cookie of an earlier one cannot move it back. */
  readonly generation: number;
}

const REFUSED: ControlOutcome = { result: "refused", changes: [] };
const ZERO_COOKIE = Buffer.alloc(COOKIE_BYTES);

/**
 * Where gateways were seen. Only its own REGISTER moves a gateway, and only if it repeats the cookie that was sent to the
 * very address it comes from: a datagram with a spoofed source, or replayed from elsewhere, moves nothing.
 */
export class RegistrationTable {
  readonly #options: RegistrationTableOptions;
  readonly #secret: KeyObject;
  readonly #byLeg = new Map<number, Entry>();
  /** By the port and source of its datagrams. */
  readonly #bySource = new Map<string, Registration>();
  /** Legs by the address of their source. */
  readonly #byAddress = new Map<string, Map<number, Registration>>();
  /** By index of the gateway that registers. */
  readonly #moves = new Map<number, TokenBucket>();

  constructor(options: RegistrationTableOptions) {
    this.#options = options;
    this.#secret = createSecretKey(options.secret);
  }

  get size(): number {
    return this.#byLeg.size;
  }

  /** Registrations that forwarding still works by after a restart. */
  adopt(registrations: readonly Registration[]): void {
    for (const it of registrations) this.#put(it, 0);
  }

  list(): Iterable<Registration> {
    return this.#byLeg.values().map((it) => it.registration);
  }

  /** The registration by which a datagram from `source` at the port of gateway `to` is forwarded, and where to. */
  routeOf(to: number, source: UdpEndpoint): { readonly leg: Leg; readonly target: Registration } | undefined {
    const leg = this.#bySource.get(sourceKey(to, source));
    if (leg === undefined) return undefined;
    const target = this.#byLeg.get(legId({ from: to, to: leg.from, parity: leg.parity }))?.registration;
    return target === undefined ? undefined : { leg, target };
  }

  /**
   * Reads a control datagram that came from `source` to the port of gateway `to`. There is an answer only for what is
   * authentic, and it is as long as what it answers.
   */
  receive(bytes: Uint8Array, at: Arrived): ControlOutcome {
    const opened = this.#open(bytes, at);
    if (opened === undefined) return REFUSED;
    const { request, key } = opened;
    const { from, to, epoch, nonce } = request;
    const wanted: Registration = { from, to, parity: epoch % 2, source: at.source, via: at.via };
    const answer = (rest: AnswerOf): Uint8Array => encodeControl({ from, to, epoch, nonce, ...rest }, key);
    const entry = this.#byLeg.get(legId(wanted));
    const isKnown = entry !== undefined && sameRegistration(entry.registration, wanted);
    if (!this.#isCookie(request.cookie, wanted, entry, isKnown)) {
      const cookie = this.#cookie(wanted, entry?.generation ?? 0, this.#slot());
      return { from, result: "challenged", answer: answer({ kind: "challenge", cookie }), changes: [] };
    }
    const accepted = answer({ kind: "registered", observed: at.source, lifetimeSeconds: LIFETIME_S });
    if (isKnown) {
      this.#put(wanted, entry.generation);
      return { from, result: "renewed", answer: accepted, changes: [] };
    }
    if (!this.#mayMove(from)) return { ...REFUSED, from };
    return { from, result: "registered", answer: accepted, changes: this.#move(wanted, entry) };
  }

  /**
   * Keeps a registration by which datagrams were forwarded: a flood of spoofed renewals, which are limited, does not let
   * one in use expire. The address stays the same, so that a spoofed datagram gains nothing.
   */
  touch(leg: Leg): void {
    const entry = this.#byLeg.get(legId(leg));
    if (entry !== undefined) this.#put(entry.registration, entry.generation);
  }

  /** Whether anything is registered from `address`. */
  isUsed(address: string): boolean {
    return this.#byAddress.has(address);
  }

  /** Forgets what was registered from `address`. */
  drop(address: string): readonly RegistrationChange[] {
    return [...(this.#byAddress.get(address)?.values() ?? [])].map((it) => this.#forget(it));
  }

  /** Forgets those that were not renewed in time, and those of gateways that were deleted. */
  sweep(exists: (index: number) => boolean): readonly RegistrationChange[] {
    const now = this.#options.clock.monotonic();
    for (const from of this.#moves.keys()) if (!exists(from)) this.#moves.delete(from);
    const gone = [...this.#byLeg.values()].filter(
      ({ registration: { from, to }, expiresAtMs }) => expiresAtMs <= now || !exists(from) || !exists(to),
    );
    return gone.map(({ registration }) => this.#forget(registration));
  }

  /** The request and its key, if it is authentic and came to the right port. */
  #open(
    bytes: Uint8Array,
    { to, binding }: Arrived,
  ):
    | { readonly request: Extract<ControlDatagram, { cookie: Uint8Array }>; readonly key: KeyObject }
    | undefined {
    const head = headOf(bytes);
    if (head?.kind !== "register" || head.to !== to || head.from === to) return undefined;
    if (!this.#options.exists(to)) return undefined;
    const shared = this.#options.keyOf(head.from, head.epoch);
    if (shared === undefined) return undefined;
    const key = binding === undefined ? shared : boundKey(shared, binding);
    const request = openControl(bytes, key);
    return request?.kind === "register" ? { request, key } : undefined;
  }

  #mayMove(from: number): boolean {
    let moves = this.#moves.get(from);
    if (moves === undefined) {
      moves = createTokenBucket(this.#options.clock, MOVES.perSecond, MOVES.burst);
      this.#moves.set(from, moves);
    }
    return moves.tryTake();
  }

  #move(wanted: Registration, entry: Entry | undefined): readonly RegistrationChange[] {
    const changes: RegistrationChange[] = [];
    // A NAT has given the address of a gateway that is gone to this one.
    const other = this.#bySource.get(sourceKey(wanted.to, wanted.source));
    if (other !== undefined && legId(other) !== legId(wanted)) changes.push(this.#forget(other));
    if (entry !== undefined) this.#leave(entry.registration);
    this.#put(wanted, (entry?.generation ?? 0) + 1);
    changes.push({ before: entry?.registration, after: wanted });
    return changes;
  }

  #put(registration: Registration, generation: number): void {
    const expiresAtMs = this.#options.clock.monotonic() + LIFETIME_S * 1000;
    this.#byLeg.set(legId(registration), { registration, generation, expiresAtMs });
    this.#bySource.set(sourceKey(registration.to, registration.source), registration);
    const { address } = registration.source;
    const legs = this.#byAddress.get(address) ?? new Map<number, Registration>();
    this.#byAddress.set(address, legs.set(legId(registration), registration));
  }

  #leave(registration: Registration): void {
    const { to, source } = registration;
    this.#bySource.delete(sourceKey(to, source));
    const legs = this.#byAddress.get(source.address);
    legs?.delete(legId(registration));
    if (legs?.size === 0) this.#byAddress.delete(source.address);
  }

  #forget(registration: Registration): RegistrationChange {
    this.#byLeg.delete(legId(registration));
    this.#leave(registration);
    return { before: registration, after: undefined };
  }

  /** A repeated REGISTER from where the gateway is anyway may have the previous cookie: it moves nothing. */
  #isCookie(cookie: Uint8Array, of: Registration, entry: Entry | undefined, isKnown: boolean): boolean {
    if (timingSafeEqual(cookie, ZERO_COOKIE)) return false;
    const generation = entry?.generation ?? 0;
    const slot = this.#slot();
    return (isKnown ? [generation, generation - 1] : [generation]).some((it) =>
      [slot, slot - 1].some((then) => timingSafeEqual(cookie, this.#cookie(of, it, then))),
    );
  }

  #cookie({ from, to, parity, source, via }: Registration, generation: number, slot: number): Buffer {
    const text = [from, to, parity, source.address, source.port, via, generation, slot].join(" ");
    return createHmac("sha256", this.#secret).update(text).digest().subarray(0, COOKIE_BYTES);
  }

  #slot(): number {
    return Math.floor(this.#options.clock.monotonic() / SLOT_MS);
  }
}

type AnswerOf =
  | { readonly kind: "challenge"; readonly cookie: Uint8Array }
  | (Omit<Extract<ControlDatagram, { kind: "registered" }>, "from" | "to" | "epoch" | "nonce"> & {
      readonly kind: "registered";
    });

/** Indexes have 10 bits. */
const INDEX_BITS = 10;
export const MAX_INDEX = 2 ** INDEX_BITS - 1;
/** Set in every id, so that none is 0, which is the mark of other packets. */
const ID_BIT = 2 ** (2 * INDEX_BITS + 1);

/** One number for each leg, of 22 bits. */
export function legId({ from, to, parity }: Leg): number {
  return ID_BIT + (((from << INDEX_BITS) | to) << 1) + parity;
}

/** The leg of a number; undefined if it is of none. */
export function legOf(id: number): Leg | undefined {
  if (!Number.isInteger(id) || id < ID_BIT || id >= 2 * ID_BIT) return undefined;
  return { from: (id >> (INDEX_BITS + 1)) & MAX_INDEX, to: (id >> 1) & MAX_INDEX, parity: id & 1 };
}

function sourceKey(to: number, { address, port }: UdpEndpoint): string {
  return `${to} ${address} ${port}`;
}

function sameRegistration(a: Registration, b: Registration): boolean {
  return a.source.address === b.source.address && a.source.port === b.source.port && a.via === b.via;
}
