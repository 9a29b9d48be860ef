import { connect, type Socket } from "node:net";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { shortSocketPath } from "./socket.ts";

/** Largest message: the sandboxes of thousands of pods fit. Unit: bytes. */
const LARGEST_MESSAGE = 16 * 1024 * 1024;

/** A client of a gRPC service on a unix socket. Connects when it is first used, and again after the server has restarted. */
export function connectService<Service extends DescService>(
  service: Service,
  socket: string,
): { readonly client: Client<Service> } & Disposable {
  // Every request names a server; that of a unix socket is "localhost", as in other clients.
  const baseUrl = "http://localhost";
  const createConnection = (): Socket => {
    using short = shortSocketPath(socket);
    return connect(short.path);
  };
  const sessionManager = new Http2SessionManager(baseUrl, {}, { createConnection });
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    readMaxBytes: LARGEST_MESSAGE,
    acceptCompression: [],
  });
  return { client: createClient(service, transport), [Symbol.dispose]: () => sessionManager.abort() };
}
