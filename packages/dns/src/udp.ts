import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { formatSocketAddress, type SocketAddress } from "./listen-address.ts";
import type { RespondTo } from "./responder.ts";

export interface UdpOptions {
  readonly address: SocketAddress;
  readonly respond: RespondTo;
  readonly log: Logger;
  /**
   * The most queries that may wait for another server; further ones are dropped, as by a full socket. When half of them wait, one client
   * has an eighth at most.
   */
  readonly maxPending: number;
}

/** Answers datagrams at one address. */
export async function serveUdp(options: UdpOptions): Promise<{ readonly port: number } & AsyncDisposable> {
  const { address, respond, log, maxPending } = options;
  const socket = createSocket({
    type: address.family === "IPv6" ? "udp6" : "udp4",
    ipv6Only: address.family === "IPv6",
    // A burst waits here while this process is busy. The kernel may give less.
    recvBufferSize: 1 << 20,
  });
  let isOpen = true;
  let pending = 0;
  /** Of them, by the address of the client. */
  const pendingOf = new Map<string, number>();
  const isTooMany = (client: string): boolean =>
    pending >= maxPending || (pendingOf.get(client) ?? 0) >= maxPending / 8;
  const send = (answer: Buffer, to: RemoteInfo): void => {
    if (!isOpen) return;
    // An answer that cannot be sent is lost like any datagram: the client asks again.
    socket.send(answer, to.port, to.address, (error) => {
      if (error !== null) log.debug("cannot send an answer", { error: error.message });
    });
  };
  const sendLater = async (answer: Promise<Buffer | undefined>, to: RemoteInfo): Promise<void> => {
    const client = to.address;
    pending++;
    pendingOf.set(client, (pendingOf.get(client) ?? 0) + 1);
    const late = await answer;
    pending--;
    const left = (pendingOf.get(client) ?? 0) - 1;
    if (left > 0) pendingOf.set(client, left);
    else pendingOf.delete(client);
    if (late !== undefined) send(late, to);
  };
  socket.on("message", (query, from) => {
    // Port 0 is invalid, and sending to it fails.
    if (from.port === 0) return;
    if (pending >= maxPending / 2 && isTooMany(from.address)) return;
    const answer = respond(query, "udp", from);
    if (answer === undefined) return;
    if (!(answer instanceof Promise)) {
      send(answer, from);
      return;
    }
    void sendLater(answer, from);
  });
  await bind(socket, address);
  socket.on("error", (error) => log.error("a DNS socket failed", { error: messageOf(error) }));
  return {
    port: socket.address().port,
    async [Symbol.asyncDispose]() {
      isOpen = false;
      await new Promise<void>((resolve) => {
        socket.close(() => resolve());
      });
    },
  };
}

function bind(socket: Socket, address: SocketAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (cause: Error): void => {
      socket.close();
      reject(cannotListen(address, "UDP", cause));
    };
    socket.once("error", onError);
    socket.bind(address.port, address.host, () => {
      socket.off("error", onError);
      resolve();
    });
  });
}

export function cannotListen(address: SocketAddress, protocol: "UDP" | "TCP", cause: Error): FleetError {
  return new FleetError("OPTION_INVALID", `cannot listen on ${formatSocketAddress(address)} (${protocol})`, {
    cause,
  });
}
