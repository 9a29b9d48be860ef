import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent, request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ApiServer, type ApiServerOptions, startApiServer } from "#server.ts";
import { exec, type ExecResult } from "@fairlead/base/exec.ts";
import { asApiServer, IS_REAL, startRealServer } from "./real-server.ts";

/** What end-to-end tests of the API server share: a server, kubectl, and a bare HTTPS client. */

const ROOT = join(import.meta.dirname, "..", "..", "..");
const TOOLS = join(ROOT, "node_modules", ".tools");
const CANDIDATES = [join(TOOLS, "kubectl"), process.env["KUBECTL"] ?? ""];

/** Path of kubectl; undefined if not installed. */
export const KUBECTL = CANDIDATES.find((it) => it !== "" && existsSync(it));
/** kubectl 1.31 and Helm 3, or undefined where they are not. */
export const OLDER_KUBECTL = present(join(TOOLS, "older", "kubectl"));
export const OLDER_HELM = present(join(TOOLS, "older", "helm"));
export const HELM = present(join(TOOLS, "helm"));
export const NO_KUBECTL = "there is no kubectl: run scripts/setup.mjs, or set KUBECTL";

function present(path: string): string | undefined {
  return existsSync(path) ? path : undefined;
}

export interface TestServer extends AsyncDisposable {
  readonly server: ApiServer;
  readonly dir: string;
  /** Runs kubectl as the admin. Never throws for an exit code. */
  kubectl(args: readonly string[], options?: KubectlOptions): Promise<ExecResult>;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
}

export interface KubectlOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  /** Default: `KUBECTL`. */
  readonly program?: string;
}

export async function startTestServer(options: Partial<ApiServerOptions> = {}): Promise<TestServer> {
  if (IS_REAL) return startRealTestServer();
  const dir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "apiserver-")));
  const server = await startApiServer({ journal: "none", ...options, dataDir: dir });
  const client = new TestClient(server);
  return {
    server,
    dir,
    kubectl: (args, of = {}) => runKubectl(server.kubeconfig, dir, args, of),
    call: (method, path, of = {}) => client.call(method, path, of),
    async [Symbol.asyncDispose]() {
      client.close();
      await server.close();
      if (options.dataDir === undefined) await rm(dir, { recursive: true, force: true });
    },
  };
}

/** The tests' own kube-apiserver, which has no registry to look into. */
async function startRealTestServer(): Promise<TestServer> {
  const real = await startRealServer();
  const client = new TestClient(real);
  return {
    server: asApiServer(real),
    dir: real.dir,
    kubectl: (args, of = {}) => runKubectl(real.kubeconfig, real.dir, args, of),
    call: (method, path, of = {}) => client.call(method, path, of),
    async [Symbol.asyncDispose]() {
      client.close();
      await real[Symbol.asyncDispose]();
    },
  };
}

function runKubectl(
  kubeconfig: string,
  dir: string,
  args: readonly string[],
  { input, env = {}, timeoutMs = 60_000, program = KUBECTL ?? "kubectl" }: KubectlOptions,
): Promise<ExecResult> {
  return exec(program, ["--kubeconfig", kubeconfig, ...args], {
    allowFailure: true,
    timeoutMs,
    // A home of its own: kubectl keeps discovery on disk.
    env: { PATH: process.env["PATH"] ?? "", HOME: dir, ...env },
    ...(input === undefined ? {} : { input }),
  });
}

export interface CallOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Send no client certificate. */
  readonly anonymous?: boolean;
}

export interface Answer {
  readonly code: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The parsed body; empty if it is not JSON. */
  readonly json: Json;
}

/** What tests look at in answers; where a field is absent, what reads it fails. */
export interface Json {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation: number;
    readonly continue: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly [field: string]: unknown;
  };
  readonly items: readonly Json[];
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status: Readonly<Record<string, unknown>>;
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

export class TestClient {
  readonly #server: Pick<ApiServer, "port" | "ca" | "admin">;
  readonly #agents: { readonly admin: Agent; readonly anonymous: Agent };

  constructor(server: Pick<ApiServer, "port" | "ca" | "admin">) {
    this.#server = server;
    const { ca, admin } = server;
    this.#agents = {
      admin: new Agent({ keepAlive: true, ca, cert: admin.cert, key: admin.key }),
      anonymous: new Agent({ keepAlive: true, ca }),
    };
  }

  call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const { body, headers = {}, anonymous = false } = options;
    const bytes = typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const agent = anonymous ? this.#agents.anonymous : this.#agents.admin;
      // Node does not say by itself how long the body of a DELETE is.
      const type =
        bytes === undefined
          ? {}
          : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(bytes) };
      const to = { host: "127.0.0.1", port: this.#server.port, method, path, agent };
      const outgoing = httpsRequest({ ...to, headers: { ...type, ...headers } }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.once("error", reject);
        answer.once("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          resolve({ code: answer.statusCode ?? 0, headers: answer.headers, text, json: parse(text) });
        });
      });
      outgoing.once("error", reject);
      outgoing.end(bytes);
    });
  }

  /** Opens a stream, as the admin. */
  open(path: string, onAnswer: (answer: IncomingMessage) => void): ClientRequest {
    const agent = this.#agents.admin;
    const outgoing = httpsRequest({ host: "127.0.0.1", port: this.#server.port, path, agent }, onAnswer);
    outgoing.end();
    return outgoing;
  }

  close(): void {
    this.#agents.admin.destroy();
    this.#agents.anonymous.destroy();
  }
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return {} as Json;
  }
}
