import { createSocket, type Socket } from "node:dgram";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { familyOfText } from "@fairlead/base/netaddr/address.ts";
import type { UdpEndpoint } from "#dataplane/control/datagram.ts";
import type { Arrival } from "./forwarder.ts";
import type { Registration } from "./registration-table.ts";

/** What may wait for a slow link; further datagrams are dropped, as by the link's own queue. Unit: bytes. */
const MAX_QUEUED = 256 * 1024;

export interface RelaySocketsOptions {
  /** Addresses to listen on, each at the port of every gateway. */
  readonly listen: readonly string[];
  readonly basePort: number;
  readonly onDatagram: (payload: Buffer, at: Arrival) => void;
  readonly log: Logger;
}

/** The relay's sockets: one for each gateway and address that it listens on. */
export class RelaySockets implements AsyncDisposable {
  readonly #options: RelaySocketsOptions;
  /** By index of the gateway, then by address; undefined while it is being opened. */
  readonly #open = new Map<number, Map<string, Socket | undefined>>();

  constructor(options: RelaySocketsOptions) {
    this.#options = options;
  }

  /** Opens sockets of gateways that are new, and closes those of others. Resolves once they receive. */
  async keep(indexes: ReadonlySet<number>): Promise<void> {
    const { listen, log } = this.#options;
    for (const [index, sockets] of this.#open)
      if (!indexes.has(index)) {
        this.#open.delete(index);
        for (const socket of sockets.values()) socket?.close();
      }
    const opening = [...indexes].map(async (index) => {
      const sockets = this.#open.get(index) ?? new Map<string, Socket | undefined>();
      this.#open.set(index, sockets);
      for (const via of listen) {
        if (sockets.has(via)) continue;
        try {
          sockets.set(via, undefined);
          const socket = await this.#bind(index, via);
          // The gateway may have gone in the meantime.
          if (this.#open.get(index) === sockets) sockets.set(via, socket);
          else socket.close();
        } catch (error) {
          log.error("cannot open a port of a gateway", { index, address: via, error: messageOf(error) });
          // The next call tries again. The other addresses serve.
          sockets.delete(via);
        }
      }
    });
    await Promise.all(opening);
  }

  /** From the port of gateway `from` to where `target` is registered. */
  send(payload: Uint8Array, from: number, target: Pick<Registration, "source" | "via">): void {
    const socket = this.#open.get(from)?.get(target.via);
    if (socket !== undefined) sendBounded(socket, payload, target.source);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.keep(new Set());
  }

  async #bind(index: number, via: string): Promise<Socket> {
    const { basePort, onDatagram, log } = this.#options;
    const isIPv6 = familyOfText(via) === "IPv6";
    const socket = createSocket({
      type: isIPv6 ? "udp6" : "udp4",
      ipv6Only: isIPv6,
      recvBufferSize: 1 << 20,
      // Destinations are addresses: Node would ask for each of them in another turn of its loop.
      lookup: (host, _options, callback) => callback(null, host, isIPv6 ? 6 : 4),
    });
    socket.on("message", (payload, { address, port }) => {
      // Port 0 is invalid, and sending to it fails. A zone is of no use on another machine.
      if (port !== 0 && !address.includes("%"))
        onDatagram(payload, { source: { address, port }, to: index, via });
    });
    await new Promise<void>((resolve, reject) => {
      socket.once("error", reject);
      socket.bind(basePort + index, via, () => {
        socket.off("error", reject);
        resolve();
      });
    });
    socket.on("error", (error) => log.warn("a socket failed", { index, error: messageOf(error) }));
    return socket;
  }
}

/** Sends unless too much is waiting: gateways may send faster than the way out is, and memory would take the rest. */
export function sendBounded(
  socket: Pick<Socket, "getSendQueueSize"> & {
    send: (payload: Uint8Array, port: number, address: string, sent: () => void) => void;
  },
  payload: Uint8Array,
  to: UdpEndpoint,
): void {
  // What cannot be sent is lost, like any datagram.
  if (socket.getSendQueueSize() <= MAX_QUEUED) socket.send(payload, to.port, to.address, () => {});
}

/** The address that datagrams to `to` leave from; undefined if there is no route. */
export async function routedFrom(to: string): Promise<string | undefined> {
  const socket = createSocket(familyOfText(to) === "IPv6" ? "udp6" : "udp4");
  try {
    // Connecting a UDP socket sends nothing: it only looks up the route.
    await new Promise<void>((resolve, reject) => {
      socket.once("error", reject);
      socket.connect(9, to, resolve);
    });
    return socket.address().address;
  } catch {
    return undefined;
  } finally {
    socket.close();
  }
}
