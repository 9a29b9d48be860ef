import { createSocket } from "node:dgram";
import { createServer } from "node:net";

/** Below the ports that Linux gives to connections (ip_local_port_range), and to Services of type NodePort. */
const PORTS = { from: 20_000, count: 10_000 };
const ATTEMPTS = 20;

/**
 * A port of 127.0.0.1 for a program that cannot choose one itself, free for TCP and UDP. One that the system chose could
 * be given to a connection of another test before the program has it.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = PORTS.from + Math.floor(Math.random() * PORTS.count);
    if ((await isFreeForTcp(port)) && (await isFreeForUdp(port))) return port;
  }
  throw new Error(`found no free port in ${ATTEMPTS} attempts, from ${PORTS.from} on`);
}

function isFreeForTcp(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

function isFreeForUdp(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4");
    socket.once("error", () => resolve(false));
    socket.bind(port, "127.0.0.1", () => socket.close(() => resolve(true)));
  });
}
