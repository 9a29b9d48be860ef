import { createSocket } from "node:dgram";
import { connect, createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";

/**
 * A pod for tests of packets: answers on TCP and UDP ports with its name and the client's address, and makes requests that are
 * asked for on its standard input, one JSON object a line.
 *
 * Usage: peer.ts NAME PORT...
 */

interface Command {
  readonly id: number;
  /** "bye": the other side closes its side first, "half": this one does; the connection stays half open. */
  readonly verb: "tcp" | "udp" | "open" | "say" | "bye" | "half";
  readonly host: string;
  readonly port: number;
  /** Port to send from; 0: any. */
  readonly from: number;
  /** Of an open connection. */
  readonly handle: number;
  /** Default: 3000. Unit: milliseconds. */
  readonly timeoutMs?: number;
}

const [name = "", ...ports] = process.argv.slice(2);
const open = new Map<number, Socket>();
const TIMEOUT_MS = 3000;

for (const port of ports.map(Number)) {
  createServer({ allowHalfOpen: true }, (socket) => {
    const line = `${name} ${plain(socket.remoteAddress ?? "")}\n`;
    let isHalf = false;
    socket.on("error", () => {});
    socket.on("data", (data) => {
      isHalf = data.toString().startsWith("half");
      if (data.toString().startsWith("bye")) socket.end(line);
      else socket.write(line);
    });
    socket.on("end", () => {
      if (!isHalf) socket.end();
    });
  }).listen(port, "::", () => process.stdout.write(`${JSON.stringify({ id: 0 })}\n`));
  const udp = createSocket("udp6");
  udp.on("message", (_, from) => udp.send(`${name} ${plain(from.address)}\n`, from.port, from.address));
  udp.bind(port, "::");
}
if (ports.length === 0) process.stdout.write(`${JSON.stringify({ id: 0 })}\n`);

createInterface({ input: process.stdin })
  .on("line", (line) => void answer(JSON.parse(line) as Command))
  .on("close", () => process.exit(0));

async function answer(command: Command): Promise<void> {
  const began = performance.now();
  const reply = await run(command).catch((error: Error) => ({
    error: "code" in error ? String(error.code) : error.message,
  }));
  process.stdout.write(`${JSON.stringify({ id: command.id, ms: performance.now() - began, ...reply })}\n`);
}

async function run(command: Command): Promise<object> {
  if (command.verb === "udp") return { text: await askUdp(command) };
  if (command.verb === "say") return { text: await say(open.get(command.handle)!) };
  const socket = await connectTo(command);
  if (command.verb === "bye" || command.verb === "half") {
    open.set(command.id, socket);
    const text = await say(socket, `${command.verb}\n`);
    if (command.verb === "half") socket.end();
    return { text };
  }
  if (command.verb === "open") {
    open.set(command.id, socket);
    return { text: await say(socket), handle: command.id };
  }
  const text = await say(socket);
  socket.resetAndDestroy();
  return { text };
}

function connectTo({ host, port, from, timeoutMs = TIMEOUT_MS }: Command): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, ...(from === 0 ? {} : { localPort: from }) });
    socket.setTimeout(timeoutMs, () => socket.destroy(new Error("ETIMEDOUT")));
    socket.on("error", reject);
    socket.once("connect", () => resolve(socket));
  });
}

function say(socket: Socket, words = "?\n"): Promise<string> {
  return new Promise((resolve, reject) => {
    socket.once("error", reject);
    socket.once("data", (data) => resolve(data.toString().trim()));
    socket.write(words);
  });
}

function askUdp({ host, port, from, timeoutMs = TIMEOUT_MS }: Command): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
    const timer = setTimeout(() => done(new Error("ETIMEDOUT")), timeoutMs);
    const done = (error: Error | undefined, text = ""): void => {
      clearTimeout(timer);
      socket.close();
      if (error === undefined) resolve(text);
      else reject(error);
    };
    socket.on("error", (error) => done(error));
    socket.on("message", (data) => done(undefined, data.toString().trim()));
    // Connected: only then does the kernel report "port unreachable".
    socket.bind(from, () => socket.connect(port, host, () => socket.send("?")));
  });
}

function plain(address: string): string {
  return address.startsWith("::ffff:") ? address.slice("::ffff:".length) : address;
}
