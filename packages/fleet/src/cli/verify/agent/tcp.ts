import { createHash, randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { once } from "node:events";
import { SERVER_PORT } from "../probes.ts";
import { type Hello, MAX_HELLO, parseHello } from "./protocol.ts";

/** Larger than what buffers on the path hold, so that full segments cross it in both directions. Unit: bytes. */
const LARGE = 1 << 18;

/** Connects and returns what the server says. */
export async function greet(address: string, signal: AbortSignal): Promise<Hello> {
  using connection = await open(address, signal);
  return connection.said;
}

/** Sends a large text and compares what comes back. */
export async function echoLarge(address: string, signal: AbortSignal): Promise<void> {
  using connection = await open(address, signal);
  const { socket, rest } = connection;
  const sent = randomBytes(LARGE);
  socket.write(sent);
  const hash = createHash("sha256").update(rest);
  let received = rest.length;
  while (received < LARGE) {
    const [chunk] = (await once(socket, "data", { signal })) as [Buffer];
    received += chunk.length;
    hash.update(chunk);
  }
  if (hash.digest("hex") !== createHash("sha256").update(sent).digest("hex"))
    throw new Error(`the ${LARGE} bytes that came back are not those that were sent`);
}

interface Connection extends Disposable {
  readonly socket: Socket;
  readonly said: Hello;
  /** Received behind the first line. */
  readonly rest: Buffer;
}

async function open(address: string, signal: AbortSignal): Promise<Connection> {
  const socket = connect({ host: address, port: SERVER_PORT, signal });
  try {
    await once(socket, "connect", { signal });
    let text = Buffer.alloc(0);
    for (;;) {
      const [chunk] = (await once(socket, "data", { signal })) as [Buffer];
      text = Buffer.concat([text, chunk]);
      const end = text.indexOf("\n");
      if (end < 0 && text.length < MAX_HELLO) continue;
      const said = parseHello(text.toString("utf8", 0, Math.max(end, 0)));
      if (said === undefined) throw new Error("what answers is not a server of this command");
      // An error after the last read changes nothing.
      socket.on("error", () => {});
      return { socket, said, rest: text.subarray(end + 1), [Symbol.dispose]: () => void socket.destroy() };
    }
  } catch (error) {
    socket.on("error", () => {}).destroy();
    throw error;
  }
}
