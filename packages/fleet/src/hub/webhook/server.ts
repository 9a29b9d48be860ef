import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import { HTTP_LIMITS, limitConnections } from "@fairlead/base/connection-limit.ts";
import { defined } from "@fairlead/base/defined.ts";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { splitHostPort } from "@fairlead/base/netaddr/host-port.ts";
import { answer, type Asked, readReview } from "./review.ts";

/** An object of 1.5 MB, as it is and as it was, and room to spare. Unit: bytes. */
const MAX_BODY = 8 * 1024 * 1024;
/** The API server gives up after 5 s. Unit: milliseconds. */
const MAX_MS = 4500;

export interface WebhookServer extends AsyncDisposable {
  readonly port: number;
  /** For new connections. PEM. */
  use(certificate: { readonly cert: string; readonly key: string }): void;
}

export interface WebhookServerOptions {
  readonly log: Logger;
  /** PEM. The authority of clients' certificates; undefined: clients need none. */
  readonly clientCa?: string | undefined;
}

/**
 * Answers AdmissionReviews over TLS. Without an authority of clients any may connect: the answer says no more than whether an object that
 * the caller has would be refused, and reads no more than a bounded body.
 *
 * @throws {FleetError} `OPTION_INVALID` when the address cannot be bound.
 */
export async function serveWebhook(
  address: string,
  decide: (asked: Asked, signal: AbortSignal) => Promise<string | undefined>,
  { log, clientCa }: WebhookServerOptions,
): Promise<WebhookServer> {
  const at = splitHostPort(address);
  if (at === undefined)
    throw new FleetError("OPTION_INVALID", `--webhook must be host:port, got ${JSON.stringify(address)}`);
  const clients = clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true, ca: clientCa };
  const server = createServer({ ...HTTP_LIMITS, ...clients }, (request, response) => {
    serve(request, response, { decide, onWhole }).catch((error: unknown) => {
      // The API server refuses the write, and reports this.
      log.warn("cannot decide about a write", { error: messageOf(error) });
      if (response.headersSent) response.destroy();
      else response.writeHead(500, { "content-type": "text/plain" }).end(messageOf(error));
    });
  });
  const onWhole = limitConnections(server);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      reject(new FleetError("OPTION_INVALID", `cannot listen on ${address} (--webhook)`, { cause }));
    });
    server.listen({ port: at.port, ...(at.host === "" ? {} : { host: at.host }) }, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : at.port,
    use: ({ cert, key }) =>
      server.setSecureContext({ cert, key, ...defined({ ca: clientCa }), minVersion: "TLSv1.2" }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

interface Handlers {
  readonly decide: (asked: Asked, signal: AbortSignal) => Promise<string | undefined>;
  readonly onWhole: ReturnType<typeof limitConnections>;
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  { decide, onWhole }: Handlers,
): Promise<void> {
  if (request.method !== "POST" || !request.url?.startsWith("/validate")) {
    response.writeHead(404).end();
    return;
  }
  const body = await read(request);
  onWhole(request, response);
  const asked = body === undefined ? undefined : readReview(body);
  if (asked === undefined) {
    response
      .writeHead(400, { "content-type": "text/plain" })
      .end("not an AdmissionReview of admission.k8s.io/v1\n");
    return;
  }
  const problem = await decide(asked, AbortSignal.timeout(MAX_MS));
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer(asked, problem)));
}

/** Undefined if it is too long, or not JSON. */
async function read(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY) return undefined;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString()) as unknown;
  } catch {
    return undefined;
  }
}
