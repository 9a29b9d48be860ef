import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { formatSocketAddress, type SocketAddress } from "./listen-address.ts";
import type { Respond } from "./responder.ts";
import { serveTcp } from "./tcp.ts";
import { serveUdp } from "./udp.ts";

export interface DnsServerOptions {
  /**
   * Where to listen, over UDP and TCP alike. Name the addresses that clients use: an answer from a socket that is bound to
   * all addresses may leave from another one than the client asked.
   */
  readonly listen: readonly SocketAddress[];
  readonly respond: Respond;
  readonly clock: Clock;
  readonly log: Logger;
  /** Per address. Default: 256. */
  readonly maxTcpConnections?: number;
  /** Unit: milliseconds. Default: 10 000. */
  readonly tcpIdleMs?: number;
  /** Queries over UDP that may wait for a forward, per address. Default: 2048. */
  readonly maxPendingUdp?: number;
}

export interface DnsServer extends AsyncDisposable {
  /** The addresses it listens on, with the chosen ports in place of 0. */
  readonly addresses: readonly SocketAddress[];
}

/**
 * Opens the sockets and answers until disposed. All sockets or none.
 *
 * @throws {FleetError} `OPTION_INVALID` when an address cannot be bound.
 */
export async function startDnsServer(options: DnsServerOptions): Promise<DnsServer> {
  const { listen, log } = options;
  if (listen.length === 0)
    throw new FleetError("OPTION_INVALID", "a DNS server requires an address to listen on");
  await using stack = new AsyncDisposableStack();
  const addresses: SocketAddress[] = [];
  for (const address of listen) {
    const both = stack.use(await serveBoth(address, options));
    addresses.push({ ...address, port: both.port });
  }
  log.info("answering DNS", { addresses: addresses.map(formatSocketAddress) });
  const sockets = stack.move();
  return { addresses, [Symbol.asyncDispose]: () => sockets.disposeAsync() };
}

/** Attempts to find a port that is free for both UDP and TCP, if port 0 is requested. */
const MAX_TRIES = 16;

/** One address, over UDP and TCP at the same port. */
async function serveBoth(
  address: SocketAddress,
  options: DnsServerOptions,
): Promise<{ readonly port: number } & AsyncDisposable> {
  const { respond, clock, log, maxPendingUdp: maxPending = 2048 } = options;
  const { maxTcpConnections: maxConnections = 256, tcpIdleMs: idleMs = 10_000 } = options;
  for (let tries = 1; ; tries += 1) {
    await using stack = new AsyncDisposableStack();
    const { port } = stack.use(await serveUdp({ address, respond, log, maxPending }));
    try {
      stack.use(await serveTcp({ address: { ...address, port }, respond, clock, maxConnections, idleMs }));
    } catch (error) {
      if (address.port !== 0 || tries === MAX_TRIES) throw error;
      continue;
    }
    const sockets = stack.move();
    return { port, [Symbol.asyncDispose]: () => sockets.disposeAsync() };
  }
}
