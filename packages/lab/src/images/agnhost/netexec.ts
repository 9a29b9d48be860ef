/** What `agnhost netexec` answers. Pure. */

import type { Sender } from "./serve.ts";

export interface NetexecFacts {
  readonly hostname: string;
  readonly httpPort: number;
  readonly udpPort: number;
  readonly now: () => Date;
  /** SIGTERM has arrived. */
  readonly isEnding: () => boolean;
}

export interface NetexecAnswer {
  readonly status: number;
  readonly text: string;
  readonly location?: string;
  /** What the program is to do after the answer. */
  readonly deed?: NetexecDeed;
}

export type NetexecDeed =
  | { readonly type: "exit"; readonly code: number }
  | { readonly type: "dial"; readonly dial: Dial };

/** Requests that the server makes to another one. */
export interface Dial {
  readonly protocol: "http" | "udp";
  readonly host: string;
  readonly port: number;
  readonly request: string;
  readonly tries: number;
}

/** Longest list of requests that one client can ask for. */
const MAX_TRIES = 1000;

export interface NetexecRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly from: Sender;
}

type Handler = (query: URLSearchParams, request: NetexecRequest, facts: NetexecFacts) => NetexecAnswer;

const exits: Handler = (query) => ({
  ...ok(""),
  deed: { type: "exit", code: whole(query.get("code"), 0, 127) ?? 0 },
});
const hostname: Handler = (_, __, facts) => ok(facts.hostname);

const HANDLERS: ReadonlyMap<string, Handler> = new Map<string, Handler>([
  ["/", (_, __, { now }) => ok(`NOW: ${now().toISOString()}`)],
  ["/clientip", (_, { from }) => ok(hostPort(from))],
  ["/serverport", (_, __, { httpPort }) => ok(String(httpPort))],
  ["/hostname", hostname],
  ["/hostName", hostname],
  [
    "/header",
    (query, { headers }) => {
      const key = query.get("key");
      return ok(
        key === null ? JSON.stringify(headers) : [headers[key.toLowerCase()] ?? ""].flat().join(", "),
      );
    },
  ],
  ["/echo", (query) => ({ status: statusOf(query, 200), text: query.get("msg") ?? "" })],
  [
    "/redirect",
    (query) => ({ status: statusOf(query, 302), text: "", location: query.get("location") ?? "" }),
  ],
  ["/healthz", () => ok("")],
  ["/readyz", (_, __, { isEnding }) => (isEnding() ? { status: 503, text: "shutting down" } : ok("ok"))],
  [
    "/dial",
    (query) => {
      const dial = readDial(query);
      return typeof dial === "string"
        ? { status: 400, text: `${dial}\n` }
        : { ...ok(""), deed: { type: "dial", dial } };
    },
  ],
  ["/exit", exits],
  ["/shutdown", exits],
]);

export function answerHttp(url: URL, request: NetexecRequest, facts: NetexecFacts): NetexecAnswer {
  const handler = HANDLERS.get(url.pathname);
  return handler === undefined
    ? { status: 404, text: "404 page not found\n" }
    : handler(url.searchParams, request, facts);
}

/** Undefined for what no command is. */
export function answerUdp(text: string, from: Sender, facts: NetexecFacts): string | undefined {
  const command = text.trim().toLowerCase();
  if (command === "hostname") return facts.hostname;
  if (command === "clientip") return hostPort(from);
  if (command === "serverport") return String(facts.udpPort);
  return command.startsWith("echo ") ? command.slice("echo ".length) : undefined;
}

function readDial(query: URLSearchParams): Dial | string {
  const protocol = (query.get("protocol") ?? "http").toLowerCase() || "http";
  if (protocol !== "http" && protocol !== "udp") return `unsupported protocol. ${protocol}`;
  const port = whole(query.get("port"), 1, 65_535);
  if (port === undefined) return "host and/or port param are invalid";
  const request = query.get("request") ?? "";
  if (request === "") return "request parameter not specified";
  const tries = whole(query.get("tries") ?? "1", 0, MAX_TRIES);
  if (tries === undefined) return `tries parameter is invalid: 0 to ${MAX_TRIES}`;
  return { protocol, host: query.get("host") ?? "", port, request, tries };
}

function ok(text: string): NetexecAnswer {
  return { status: 200, text };
}

function hostPort({ address, port }: Sender): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

function statusOf(query: URLSearchParams, otherwise: number): number {
  return whole(query.get("code"), 200, 599) ?? otherwise;
}

function whole(text: string | null, min: number, max: number): number | undefined {
  const value = text === null || !/^\d{1,5}$/.test(text) ? Number.NaN : Number(text);
  return value >= min && value <= max ? value : undefined;
}
