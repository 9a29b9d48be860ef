import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent, request as httpsRequest } from "node:https";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";

/** The server that scenarios are played against, and how it is reached. */

export interface Credentials {
  readonly token?: string;
  readonly certificate?: string;
  readonly key?: string;
}

export interface RawRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Uint8Array;
  /** Bearer token in place of the admin's credentials; "" sends none. */
  readonly token?: string;
}

/** Longest a server may take to answer. Unit: milliseconds. */
const ANSWER_TIMEOUT = 60_000;

export class Target implements Disposable {
  readonly #url: URL;
  readonly #credentials: Credentials;
  readonly #admin: Agent | HttpAgent;
  readonly #bare: Agent | HttpAgent;

  constructor(url: string, credentials: Credentials, ca?: string) {
    this.#url = new URL(url);
    this.#credentials = credentials;
    const tls = ca === undefined ? { rejectUnauthorized: false } : { ca };
    const { certificate: cert, key } = credentials;
    const client = cert === undefined || key === undefined ? {} : { cert, key };
    const isPlain = this.#url.protocol === "http:";
    this.#admin = isPlain
      ? new HttpAgent({ keepAlive: true })
      : new Agent({ keepAlive: true, ...tls, ...client });
    this.#bare = isPlain ? new HttpAgent({ keepAlive: true }) : new Agent({ keepAlive: true, ...tls });
  }

  static async fromKubeconfig(path: string): Promise<Target> {
    const { server, ca, credentials } = await loadKubeconfig(path);
    return new Target(server, await credentials.current(), ca);
  }

  /** Sends a request, and returns when the answer's head is there. */
  open({ method, path, headers, body, token }: RawRequest): Promise<IncomingMessage> {
    const bearer = token ?? this.#credentials.token ?? "";
    const sent = {
      "User-Agent": "corpus",
      ...(bearer === "" ? {} : { Authorization: `Bearer ${bearer}` }),
      // Node does not say by itself how long the body of a DELETE is.
      ...(body === undefined ? {} : { "Content-Length": String(Buffer.byteLength(body)) }),
      ...headers,
    };
    const { hostname, port, pathname, protocol } = this.#url;
    const request = protocol === "http:" ? httpRequest : httpsRequest;
    const to = {
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port,
      method,
      path: `${pathname.replace(/\/$/, "")}${path}`,
      headers: sent,
      agent: token === undefined ? this.#admin : this.#bare,
      signal: AbortSignal.timeout(ANSWER_TIMEOUT),
    };
    return new Promise((resolve, reject) => {
      const outgoing = request(to, resolve);
      outgoing.once("error", reject);
      outgoing.end(body);
    });
  }

  [Symbol.dispose](): void {
    this.#admin.destroy();
    this.#bare.destroy();
  }
}
