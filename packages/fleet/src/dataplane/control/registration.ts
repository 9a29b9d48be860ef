import type { KeyObject } from "node:crypto";
import { type ControlHead, encodeControl, NO_COOKIE, openControl, type UdpEndpoint } from "./datagram.ts";

/** What an answer of the relay means to the gateway. */
export type RegistrationAnswer =
  /** To be sent at once, to the relay's same port. */
  | { readonly send: Uint8Array }
  /** The relay forwards datagrams of the other gateway to `observed`, for `lifetimeSeconds` from now. */
  | { readonly observed: UdpEndpoint; readonly lifetimeSeconds: number };

export interface RegistrationOptions extends ControlHead {
  /** `controlKey("relay", own private key, public key of the relay)`. */
  readonly key: KeyObject;
  /** 16 random bytes, different at each call. */
  readonly nonce: () => Uint8Array;
}

/**
 * The gateway's side of its registration at one relay for one other gateway and epoch. Holds no sockets and no timers: the
 * caller sends `request()` to the relay's port of the other gateway every 15 to 20 s, more often while there is no answer,
 * and hands over what comes from there.
 */
export class RelayRegistration {
  readonly #options: RegistrationOptions;
  #nonce: Uint8Array;
  #cookie = NO_COOKIE;

  constructor(options: RegistrationOptions) {
    this.#options = options;
    this.#nonce = options.nonce();
  }

  /** The datagram to send. The same one until it is answered, so that a late answer counts. */
  request(): Uint8Array {
    const { from, to, epoch, key } = this.#options;
    return encodeControl(
      { kind: "register", from, to, epoch, nonce: this.#nonce, cookie: this.#cookie },
      key,
    );
  }

  /** What to do about an answer; undefined if it is forged, replayed or for another gateway. */
  receive(bytes: Uint8Array): RegistrationAnswer | undefined {
    const { from, to, epoch, key, nonce } = this.#options;
    const answer = openControl(bytes, key);
    if (answer === undefined || answer.from !== from || answer.to !== to || answer.epoch !== epoch)
      return undefined;
    if (Buffer.compare(answer.nonce, this.#nonce) !== 0) return undefined;
    if (answer.kind === "challenge") {
      this.#nonce = nonce();
      this.#cookie = answer.cookie;
      return { send: this.request() };
    }
    if (answer.kind !== "registered") return undefined;
    this.#nonce = nonce();
    return { observed: answer.observed, lifetimeSeconds: answer.lifetimeSeconds };
  }
}
