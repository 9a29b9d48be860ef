/** Sends over TCP as fast as it can, where iperf3 is missing. Prints what it sent or received, and its CPU time. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

const PORT = 5201;
const CHUNK = Buffer.alloc(256 * 1024);

const [mode, address = "", seconds = "1"] = process.argv.slice(2);
const bytes = mode === "receive" ? await receive() : await send(address, Number(seconds) * 1000);
const { user, system } = process.cpuUsage();
process.stdout.write(`${JSON.stringify({ bytes, cpuSeconds: (user + system) / 1e6 })}\n`);

async function receive(): Promise<number> {
  const server = createServer().listen(PORT);
  await once(server, "listening");
  process.stdout.write("listening\n");
  const [socket] = (await once(server, "connection")) as [Socket];
  socket.resume();
  await once(socket, "end");
  server.close();
  socket.end();
  return socket.bytesRead;
}

async function send(to: string, ms: number): Promise<number> {
  const socket = connect(PORT, to);
  await once(socket, "connect");
  const began = performance.now();
  while (performance.now() - began < ms) if (!socket.write(CHUNK)) await once(socket, "drain");
  socket.end();
  await once(socket, "close");
  return socket.bytesWritten;
}
