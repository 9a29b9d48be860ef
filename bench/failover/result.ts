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

/** What became of the requests of a client. */
export interface Requests {
  readonly asked: number;
  /** When those that failed began. Unit: milliseconds since the Unix epoch. */
  readonly failures: readonly number[];
  /** When the last one began that each cluster answered. Unit: milliseconds since the Unix epoch. */
  readonly answeredMs: Readonly<Record<string, number>>;
}
