import { createServer, type Server, type Socket } from "node:net";
import type { Clock } from "@fairlead/base/clock.ts";
import { ConnectionLimit, networkOf, peerOf } from "@fairlead/base/connection-limit.ts";
import type { SocketAddress } from "./listen-address.ts";
import type { RespondTo } from "./responder.ts";
import { cannotListen } from "./udp.ts";

export interface TcpOptions {
  readonly address: SocketAddress;
  readonly respond: RespondTo;
  readonly clock: Clock;
  /** The limit of connections; for a further one, the longest idle one is closed. One client's limit is an eighth of it. */
  readonly maxConnections: number;
  /** A connection on which nothing whole arrived for so long is closed (RFC 7766, section 6.2.3). Unit: milliseconds. */
  readonly idleMs: number;
}

/** A client has at most this part of all connections: idle ones of some, such as a pod, keep no other one out. */
const CLIENTS = 8;
/** A client may have as many in any case. */
const FEW = 16;
/** Queries of one connection that may be open at the same time; more wait in the socket. */
const MAX_OPEN_QUERIES = 32;
/** Far more than a question with options needs. Unit: bytes. */
const MAX_QUERY_BYTES = 4096;
/** Answers that a client does not take up: beyond this the connection is closed. Unit: bytes. */
const MAX_UNSENT_BYTES = 512 * 1024;

/** Answers on streams at one address: each message has its length in front (RFC 1035, section 4.2.2). */
export async function serveTcp(options: TcpOptions): Promise<{ readonly port: number } & AsyncDisposable> {
  const { address, maxConnections } = options;
  // In the order of their last query: the first has been silent longest.
  const connections = new ConnectionLimit({
    perGroup: Math.max(FEW, Math.floor(maxConnections / CLIENTS)),
    all: maxConnections,
  });
  const server = createServer({ noDelay: true }, (socket) => {
    const [peer, network] = [peerOf(socket), networkOf(socket)];
    const hold = (): void => connections.add(peer, network, () => connection.close());
    const connection = new Connection(socket, options, hold);
    hold();
    socket.on("close", () => {
      connections.delete(peer);
      connection.close();
    });
  });
  await listen(server, address);
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : address.port,
    async [Symbol.asyncDispose]() {
      connections.closeAll();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

function listen(server: Server, address: SocketAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (cause: Error): void => reject(cannotListen(address, "TCP", cause));
    server.once("error", onError);
    server.listen({ port: address.port, host: address.host, ipv6Only: address.family === "IPv6" }, () => {
      server.off("error", onError);
      resolve();
    });
  });
}

class Connection {
  readonly #socket: Socket;
  readonly #options: TcpOptions;
  readonly #onActive: () => void;
  #received: Buffer = Buffer.alloc(0);
  #open = 0;
  #idle: Disposable | undefined;
  #isClosed = false;

  constructor(socket: Socket, options: TcpOptions, onActive: () => void) {
    this.#socket = socket;
    this.#options = options;
    this.#onActive = onActive;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    // A broken connection is the client's affair; `close` follows.
    socket.on("error", () => {});
    this.#waitForMore();
  }

  close(): void {
    this.#isClosed = true;
    this.#idle?.[Symbol.dispose]();
    this.#socket.destroy();
  }

  /** What is kept is at most one message and one chunk. */
  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    this.#answerAll();
  }

  #answerAll(): void {
    while (!this.#isClosed && this.#open < MAX_OPEN_QUERIES && this.#received.length >= 2) {
      const end = 2 + this.#received.readUInt16BE(0);
      if (end > MAX_QUERY_BYTES) this.close();
      if (this.#received.length < end) break;
      const query = this.#received.subarray(2, end);
      this.#received = this.#received.subarray(end);
      this.#onActive();
      this.#waitForMore();
      this.#answer(query);
    }
    if (this.#open >= MAX_OPEN_QUERIES) this.#socket.pause();
    else this.#socket.resume();
  }

  #answer(query: Buffer): void {
    const answer = this.#options.respond(query, "tcp", {
      address: this.#socket.remoteAddress ?? "",
      port: this.#socket.remotePort ?? 0,
    });
    // Silence on a stream would leave the client waiting for its turn.
    if (answer === undefined) this.close();
    else if (answer instanceof Promise) void this.#sendLater(answer);
    else this.#send(answer);
  }

  async #sendLater(answer: Promise<Buffer | undefined>): Promise<void> {
    this.#open++;
    const late = await answer;
    this.#open--;
    if (late !== undefined) this.#send(late);
    this.#answerAll();
  }

  #send(answer: Buffer): void {
    if (this.#isClosed) return;
    const length = Buffer.alloc(2);
    length.writeUInt16BE(answer.length);
    this.#socket.write(Buffer.concat([length, answer]));
    if (this.#socket.writableLength > MAX_UNSENT_BYTES) this.close();
  }

  #waitForMore(): void {
    this.#idle?.[Symbol.dispose]();
    this.#idle = this.#options.clock.after(this.#options.idleMs, () => this.close());
  }
}
