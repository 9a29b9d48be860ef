import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { SERVER_PORT } from "../probes.ts";
import { answerOf, hello } from "./protocol.ts";

/** Longest silence of a connection. Unit: milliseconds. */
const IDLE_MS = 30_000;
const MAX_CONNECTIONS = 512;

/** Serves the probes of other clusters over TCP and UDP until `signal` aborts. Clients receive the name `cluster`. */
export async function serveProbes(cluster: string, signal: AbortSignal): Promise<void> {
  const server = createServer((socket) => {
    socket.setTimeout(IDLE_MS, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    socket.write(hello({ cluster, peer: plain(socket.remoteAddress) }));
    socket.pipe(socket);
  });
  server.maxConnections = MAX_CONNECTIONS;
  const hasIPv6 = await listens(server, "::");
  if (!hasIPv6) await listens(server, "0.0.0.0");
  const udp = createSocket(hasIPv6 ? "udp6" : "udp4");
  udp.on("message", (bytes, from) => udp.send(answerOf(bytes), from.port, from.address, () => {}));
  udp.bind(SERVER_PORT);
  await once(udp, "listening");
  await untilAborted(signal);
  udp.close();
  server.close();
  server.unref();
}

/** False where the machine has no IPv6. */
async function listens(server: Server, host: string): Promise<boolean> {
  server.listen(SERVER_PORT, host);
  try {
    await once(server, "listening");
    return true;
  } catch (error) {
    if (host === "0.0.0.0") throw error;
    return false;
  }
}

/** An IPv4 address without the prefix that it has on a socket of both families. */
function plain(address: string | undefined): string {
  return (address ?? "").replace(/^::ffff:/, "");
}
