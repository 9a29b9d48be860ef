import type { WireguardDevice } from "@fairlead/os/wireguard/state.ts";

/** How long a session of WireGuard lasts at most after its handshake (WireGuard: REJECT_AFTER_TIME). Unit: milliseconds. */
export const SESSION_MS = 180_000;

interface Received {
  readonly bytes: number;
  /** Since when it has been so much, on the monotonic clock. */
  readonly sinceMs: number;
}

/**
 * Peers of WireGuard devices that are to be forgotten, because nothing has come from them for as long as a session lasts. Pure.
 *
 * WireGuard refuses a handshake whose time is not after that of the last one of the same peer. So a peer whose clock was set back cannot begin a
 * session until its clock is there again, and of two such peers neither can. A peer without a session has none that an old handshake could end, so
 * that time is of no more use then.
 */
export class SilentPeers {
  readonly #devices = new Map<string, ReadonlyMap<string, Received>>();

  /** Keeps what is known of these devices only: others are gone. */
  retain(names: ReadonlySet<string>): void {
    for (const name of this.#devices.keys()) if (!names.has(name)) this.#devices.delete(name);
  }

  /**
   * @param received - How much each peer has sent since it was added, by public key.
   * @returns Public keys. Each once: a peer that was added again has sent nothing.
   */
  note(
    { name, peers }: WireguardDevice,
    received: ReadonlyMap<string, number>,
    nowMs: number,
  ): ReadonlySet<string> {
    const before = this.#devices.get(name);
    const now = new Map(
      [...received].map(([key, bytes]) => {
        const known = before?.get(key);
        return [key, known?.bytes === bytes ? known : { bytes, sinceMs: nowMs }] as const;
      }),
    );
    const isSilent = ({ bytes, sinceMs }: Received): boolean => bytes > 0 && nowMs - sinceMs >= SESSION_MS;
    // One without an endpoint would lose the one that WireGuard has learned.
    const silent = peers.flatMap(({ publicKey, endpoint }) => {
      const known = now.get(publicKey);
      return endpoint !== undefined && known !== undefined && isSilent(known) ? [publicKey] : [];
    });
    for (const key of silent) now.delete(key);
    this.#devices.set(name, now);
    return new Set(silent);
  }
}
