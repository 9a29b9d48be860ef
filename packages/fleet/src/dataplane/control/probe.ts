import type { KeyObject } from "node:crypto";
import { type ControlHead, encodeControl, openControl, type UdpEndpoint } from "./datagram.ts";

export interface ProberOptions extends ControlHead {
  /** `controlKey("probe", own private key, public key of the other gateway)`. */
  readonly key: KeyObject;
  /** 16 random bytes, different at each call. */
  readonly nonce: () => Uint8Array;
}

/** Probes without an answer that are remembered. */
const MAX_OUTSTANDING = 64;

/**
 * Probes of one gateway's candidates, and their answers. `T` is what the caller wants to know again with the answer: the
 * candidate, when it was sent.
 */
export class Prober<T> {
  readonly #options: ProberOptions;
  /** By nonce, oldest first. */
  readonly #outstanding = new Map<string, T>();

  constructor(options: ProberOptions) {
    this.#options = options;
  }

  /** The datagram to send to a candidate. */
  request(tag: T): Uint8Array {
    const { from, to, epoch, key } = this.#options;
    const nonce = this.#options.nonce();
    this.#outstanding.set(textOf(nonce), tag);
    const [oldest] = this.#outstanding.keys();
    if (this.#outstanding.size > MAX_OUTSTANDING && oldest !== undefined) this.#outstanding.delete(oldest);
    return encodeControl({ kind: "probe", from, to, epoch, nonce }, key);
  }

  /** Which probe was answered, and the source address that the other gateway saw; undefined for what is forged or replayed. */
  receive(bytes: Uint8Array): { readonly tag: T; readonly observed: UdpEndpoint } | undefined {
    const { from, to, epoch, key } = this.#options;
    const answer = openControl(bytes, key);
    if (answer?.kind !== "probe-reply") return undefined;
    if (answer.from !== from || answer.to !== to || answer.epoch !== epoch) return undefined;
    const nonce = textOf(answer.nonce);
    const tag = this.#outstanding.get(nonce);
    if (!this.#outstanding.delete(nonce)) return undefined;
    return { tag: tag as T, observed: answer.observed };
  }
}

/**
 * The answer to a probe that came from `source`; undefined if it is forged or was made for other gateways. A probe proves
 * nothing about its source (it may be replayed): only answers to own probes do.
 *
 * @param own - The pair as the answering gateway sees it: `from` is itself.
 */
export function answerProbe(
  bytes: Uint8Array,
  own: ControlHead & { readonly key: KeyObject },
  source: UdpEndpoint,
): Uint8Array | undefined {
  const probe = openControl(bytes, own.key);
  if (probe?.kind !== "probe") return undefined;
  if (probe.from !== own.to || probe.to !== own.from || probe.epoch !== own.epoch) return undefined;
  const { from, to, epoch, nonce } = probe;
  return encodeControl({ kind: "probe-reply", from, to, epoch, nonce, observed: source }, own.key);
}

function textOf(nonce: Uint8Array): string {
  return Buffer.from(nonce).toString("base64");
}
