import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { issueAuthority, issueServerCertificate } from "@fairlead/base/pki/issue.ts";

/** A webhook for tests: returns the configured answers, and records its requests. */

/** An AdmissionReview or ConversionReview. */
export interface Review {
  readonly apiVersion: string;
  readonly kind: string;
  readonly request: Readonly<Record<string, unknown>> & { readonly uid: string };
}

export interface HookAnswer {
  readonly code?: number;
  /** The whole body; an object is sent as JSON. */
  readonly body?: unknown;
  /** Never answer. */
  readonly hangs?: boolean;
}

export interface WebhookServer extends AsyncDisposable {
  readonly port: number;
  readonly asked: readonly { readonly path: string; readonly review: Review }[];
  /** PEM of the authority of its certificate, in base64. */
  readonly caBundle: string;
  url(path: string): string;
}

export async function startWebhookServer(
  answer: (path: string, review: Review) => HookAnswer | Promise<HookAnswer>,
  names: readonly string[] = [],
): Promise<WebhookServer> {
  const authority = await issueAuthority({ commonName: "hooks" });
  const { cert, key } = await issueServerCertificate(authority, { names, ips: ["127.0.0.1"] });
  const asked: { path: string; review: Review }[] = [];
  const server = createServer({ cert, key }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.once("end", () => {
      const path = (request.url ?? "").split("?", 1)[0] ?? "";
      const review = JSON.parse(Buffer.concat(chunks).toString("utf8")) as Review;
      asked.push({ path, review });
      const send = async (): Promise<void> => {
        const { code = 200, body = {}, hangs = false } = await answer(path, review);
        if (hangs) return;
        response.writeHead(code, { "Content-Type": "application/json" });
        response.end(typeof body === "string" ? body : JSON.stringify(body));
      };
      void send();
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    asked,
    caBundle: Buffer.from(authority.cert, "utf8").toString("base64"),
    url: (path) => `https://127.0.0.1:${port}${path}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** The answer of a webhook to an AdmissionReview. */
export function admissionAnswer(review: Review, response: Readonly<Record<string, unknown>>): HookAnswer {
  const { apiVersion, kind, request } = review;
  return { body: { apiVersion, kind, response: { uid: request.uid, ...response } } };
}

export function patchOf(operations: readonly unknown[]): Readonly<Record<string, unknown>> {
  const patch = Buffer.from(JSON.stringify(operations), "utf8").toString("base64");
  return { allowed: true, patchType: "JSONPatch", patch };
}
