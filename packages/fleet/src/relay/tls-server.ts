import type { Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import { ConnectionLimit, networkOf, peerOf } from "@fairlead/base/connection-limit.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { formatAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { bindingOf, type Frame, FrameReader, FrameWriter } from "#dataplane/control/frames.ts";
import type { Arrival } from "./forwarder.ts";
import type { Registration } from "./registration-table.ts";

/** What `via` of a registration says that was made over TLS. */
export const VIA_TLS = "tls";

export interface TlsServerOptions {
  readonly listen: readonly string[];
  readonly port: number;
  /** PEM. */
  readonly cert: string;
  readonly key: string;
  /**
   * A datagram of a connection. Returns the index of the gateway that it is of, if it was authentic: until one is, a connection
   * has no claim to stay.
   *
   * @param binding - See `boundKey`.
   */
  readonly onDatagram: (payload: Buffer, at: Arrival, binding: Uint8Array) => number | undefined;
  /** All registrations from `address` have ended. */
  readonly onClosed: (address: string) => void;
  readonly log: Logger;
}

export interface TlsServer extends AsyncDisposable {
  /** From gateway `from`, to where `target` is registered. */
  send(payload: Uint8Array, from: number, target: Pick<Registration, "source" | "parity">): void;
  /** Closes the connection that is known by `address`. */
  close(address: string): void;
}

interface Connection {
  readonly writer: FrameWriter;
  readonly socket: Socket;
  isAuthentic: boolean;
}

/** Of connections that have not registered: of one address (a /64), and of all. The oldest goes first. */
const STRANGERS = { perGroup: 16, all: 256 } as const;
/** Of those of one gateway, and of all. A gateway has one, and a new one while the old one is not known to be broken. */
const GATEWAYS = { perGroup: 8, all: 4096 } as const;
/** Sockets that are being closed count for a moment. */
const MAX_CONNECTIONS = STRANGERS.all + GATEWAYS.all + 256;
/** Longest that a connection may take to register, and may be silent later: gateways renew every 15 s. Unit: milliseconds. */
const REGISTER_MS = 10_000;
const SILENT_MS = 60_000;
/** The discard-only block 100::/64 (RFC 6666): never a source of a packet, so that a connection can be known by it. */
const FIRST_ADDRESS = parseAddress("100::") as bigint;

/** Serves gateways whose UDP is dropped: their datagrams come in frames over TLS. */
export async function serveTls(options: TlsServerOptions): Promise<TlsServer> {
  const { listen, port, cert, key, onDatagram, onClosed, log } = options;
  const connections = new Map<string, Connection>();
  const strangers = new ConnectionLimit(STRANGERS);
  const known = new ConnectionLimit(GATEWAYS);
  let count = 0;

  function accept(socket: TLSSocket): void {
    const address = formatAddress(FIRST_ADDRESS + BigInt(++count));
    const binding = bindingOf(socket);
    const connection: Connection = { writer: new FrameWriter(socket), socket, isAuthentic: false };
    const reader = new FrameReader();
    connections.set(address, connection);
    socket.setNoDelay(true);
    socket.setTimeout(REGISTER_MS, () => socket.destroy());
    socket.on("error", (error: Error) => log.debug("a connection failed", { error: error.message }));
    socket.on("close", () => {
      connections.delete(address);
      known.delete(address);
      onClosed(address);
    });
    const receive = ({ index, parity, payload }: Frame): void => {
      const at = { source: { address, port: 1 + parity }, to: index, via: VIA_TLS };
      const gateway = onDatagram(payload, at, binding);
      if (gateway === undefined) {
        if (!connection.isAuthentic) socket.destroy();
        return;
      }
      if (!connection.isAuthentic) {
        connection.isAuthentic = true;
        strangers.delete(peerOf(socket));
        socket.setTimeout(SILENT_MS);
      }
      if (!socket.destroyed) known.add(address, String(gateway), () => socket.destroy());
    };
    socket.on("data", (chunk: Buffer) => {
      const frames = reader.read(chunk);
      if (frames === undefined) socket.destroy();
      for (const frame of frames ?? []) if (!socket.destroyed) receive(frame);
    });
  }

  const servers = listen.map((host) => {
    const server = createServer({ cert, key, minVersion: "TLSv1.3", handshakeTimeout: REGISTER_MS }, accept);
    server.maxConnections = MAX_CONNECTIONS;
    server.on("connection", (socket: Socket) => {
      const peer = peerOf(socket);
      socket.once("close", () => strangers.delete(peer));
      strangers.add(peer, networkOf(socket), () => socket.destroy());
    });
    server.on("tlsClientError", (error) => log.debug("a handshake failed", { error: error.message }));
    return { host, server };
  });
  for (const { host, server } of servers)
    await new Promise<void>((resolve, reject) => {
      server.once("error", (cause) =>
        reject(
          new FleetError("OPTION_INVALID", `cannot listen on ${host} port ${port} (--tls-port)`, { cause }),
        ),
      );
      server.listen({ host, port, ipv6Only: host.includes(":") }, resolve);
    });
  return {
    send(payload, from, { source, parity }) {
      connections.get(source.address)?.writer.write({ index: from, parity, payload: Buffer.from(payload) });
    },
    close: (address) => connections.get(address)?.socket.destroy(),
    async [Symbol.asyncDispose]() {
      for (const { socket } of connections.values()) socket.destroy();
      strangers.closeAll();
      await Promise.all(
        servers.map(
          ({ server }) =>
            new Promise<void>((resolve) => {
              server.close(() => resolve());
            }),
        ),
      );
    },
  };
}
