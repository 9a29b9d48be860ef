import { createSocket, type Socket } from "node:dgram";
import { createInterface } from "node:readline";

/**
 * UDP sockets in a namespace, for tests of datagrams. Prints every datagram that arrives, one JSON object a line, and sends
 * what it reads as such from its standard input.
 *
 * Usage: udp-peer.ts PORT...
 */

interface Send {
  /** Local port, one of those of the command line. */
  readonly from: number;
  readonly host: string;
  readonly port: number;
  /** Base64. */
  readonly payload: string;
  /** How often to send it, one each millisecond. */
  readonly times: number;
}

const sockets = new Map<number, Socket>();
const ports = process.argv.slice(2).map(Number);

for (const port of ports) {
  const socket = createSocket({ type: "udp6", recvBufferSize: 1 << 21 });
  sockets.set(port, socket);
  socket.on("message", (payload, from) => {
    const address = from.address.startsWith("::ffff:") ? from.address.slice(7) : from.address;
    print({ at: port, address, port: from.port, payload: payload.toString("base64") });
  });
  await new Promise<void>((resolve) => {
    socket.bind(port, "::", resolve);
  });
}
print({ ready: true });

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { from, host, port, payload, times } = JSON.parse(line) as Send;
    const bytes = Buffer.from(payload, "base64");
    const target = host.includes(":") ? host : `::ffff:${host}`;
    let sent = 0;
    const send = (): void => {
      sockets.get(from)?.send(bytes, port, target, () => {});
      if (++sent < times) setTimeout(send, 1);
    };
    send();
  })
  .on("close", () => process.exit(0));

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
