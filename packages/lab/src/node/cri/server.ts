import { chmodSync, mkdirSync, rmSync } from "node:fs";
import type { Http2Server } from "node:http2";
import { createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { FleetError } from "@fairlead/base/errors.ts";
import type { Component } from "@fairlead/base/lifecycle.ts";
import { shortSocketPath } from "@fairlead/os/cri/socket.ts";

/** A pod that has its network. */
export interface RunningPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** File of its network namespace; undefined on the node's network. */
  readonly netns: string | undefined;
}

export interface CriServerOptions {
  /** Path of the unix socket. */
  readonly socket: string;
  readonly pods: () => Iterable<RunningPod>;
}

/** The part of the container runtime interface by which other programs of the node find its pods' network namespaces. */
export class CriServer implements Component {
  readonly #options: CriServerOptions;
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  #service: Promise<Http2Server> | undefined;

  constructor(options: CriServerOptions) {
    this.#options = options;
    this.#server = createServer((socket) => {
      this.#open.add(socket);
      socket.once("close", () => this.#open.delete(socket));
      // A client that goes away does not matter to the node.
      socket.on("error", () => {});
      this.#service ??= this.#load();
      void this.#service.then((service) => service.emit("connection", socket));
    });
  }

  /** gRPC takes 60 ms of processor time to load, and few labs have a program that asks. */
  async #load(): Promise<Http2Server> {
    const { serveCri } = await import("./service.ts");
    return serveCri(this.#options.pods);
  }

  /** @throws {FleetError} `OPTION_INVALID` if the socket cannot be made. */
  start(): Promise<void> {
    const { socket } = this.#options;
    mkdirSync(dirname(socket), { recursive: true });
    // Left by an earlier process of this node, of which there is one at a time.
    rmSync(socket, { force: true });
    return new Promise((resolve, reject) => {
      this.#server.once("error", (cause) =>
        reject(new FleetError("OPTION_INVALID", `cannot listen on the socket ${socket}`, { cause })),
      );
      using short = shortSocketPath(socket);
      this.#server.listen(short.path, () => {
        chmodSync(socket, 0o600);
        resolve();
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#open) socket.destroy();
    await closed;
  }
}
