export const PORT = 7007;

/** What a client lost. */
export interface Result {
  readonly sent: number;
  readonly lost: number;
  /** From the first to the last datagram that was lost. */
  readonly outageMs: number;
  /** Connections that are still open, of `tcp`. */
  readonly tcpKept: number;
  readonly tcp: number;
  /** The longest time in which a connection received nothing. */
  readonly tcpSilentMs: number;
}
