import type { Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { formatAddress, parseAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
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
   * A datagram of a connection. Returns whether it was authentic: until one is, a connection has no claim to stay.
   *
   * @param binding - See `boundKey`.
   */
  readonly onDatagram: (payload: Buffer, at: Arrival, binding: Uint8Array) => boolean;
  /** All registrations from `address` have ended. */
  readonly onClosed: (address: string) => void;
  readonly log: Logger;
}

export interface TlsServer extends AsyncDisposable {
  /** From gateway `from`, to where `target` is registered. */
  send(payload: Uint8Array, from: number, target: Pick<Registration, "source" | "parity">): void;
}

interface Connection {
  readonly writer: FrameWriter;
  readonly socket: Socket;
  isAuthentic: boolean;
}

/** Of connections that have not registered: of one address (a /64), and of all. The oldest goes first. */
const STRANGERS = { perAddress: 16, all: 256 } as const;
const MAX_CONNECTIONS = 4096;
/** Longest that a connection may take to register, and may be silent later: gateways renew every 15 s. Unit: milliseconds. */
const REGISTER_MS = 10_000;
const SILENT_MS = 60_000;
/** The discard-only block 100::/64 (RFC 6666): never a source of a packet, so that a connection can be known by it. */
const FIRST_ADDRESS = parseAddress("100::") as bigint;

/** Serves gateways whose UDP is dropped: their datagrams come in frames over TLS. */
export async function serveTls(options: TlsServerOptions): Promise<TlsServer> {
  const { listen, port, cert, key, onDatagram, onClosed, log } = options;
  const connections = new Map<string, Connection>();
  /** Not registered yet, oldest first, by address and port of the other end. */
  const strangers = new Map<string, Socket>();
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
      onClosed(address);
    });
    const receive = ({ index, parity, payload }: Frame): void => {
      const at = { source: { address, port: 1 + parity }, to: index, via: VIA_TLS };
      if (!onDatagram(payload, at, binding)) {
        if (!connection.isAuthentic) socket.destroy();
      } else if (!connection.isAuthentic) {
        connection.isAuthentic = true;
        strangers.delete(peerOf(socket));
        socket.setTimeout(SILENT_MS);
      }
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
    server.on("connection", (socket: Socket) => admit(socket, strangers));
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
    async [Symbol.asyncDispose]() {
      for (const { socket } of connections.values()) socket.destroy();
      for (const socket of strangers.values()) socket.destroy();
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

/** Refuses a connection of an address that has too many, and lets the oldest stranger go where there are too many in all. */
function admit(socket: Socket, strangers: Map<string, Socket>): void {
  const peer = peerOf(socket);
  const group = groupOf(peer);
  const same = [...strangers.keys()].filter((it) => groupOf(it) === group);
  if (same.length >= STRANGERS.perAddress) {
    socket.destroy();
    return;
  }
  const [oldest] = strangers;
  if (strangers.size >= STRANGERS.all && oldest !== undefined) {
    strangers.delete(oldest[0]);
    oldest[1].destroy();
  }
  strangers.set(peer, socket);
  socket.once("close", () => {
    if (strangers.get(peer) === socket) strangers.delete(peer);
  });
}

function peerOf({ remoteAddress = "", remotePort = 0 }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** The address of a peer, or its /64. */
function groupOf(peer: string): string {
  const address = tryParseAddress(peer.split(" ", 1)[0] ?? "");
  return typeof address === "bigint" ? String(address >> 64n) : String(address);
}
