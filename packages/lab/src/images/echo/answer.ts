/** What the echo server says about a request. Pure. */

export interface EchoIdentity {
  readonly cluster: string;
  readonly node: string;
  readonly namespace: string;
  readonly pod: string;
  /** Addresses of the pod. */
  readonly addresses: readonly string[];
}

export interface EchoRequest {
  readonly method: string;
  readonly path: string;
  readonly host: string;
  /** Where the connection came from, as this side of it sees that. */
  readonly clientAddress: string;
  readonly clientPort: number;
  /** The address on which it arrived. */
  readonly serverAddress: string;
}

export type EchoAnswer = EchoIdentity & EchoRequest;

/** "::ffff:10.0.0.1", a mapped address of a dual-stack socket, is the IPv4 address that it stands for. */
export function plainAddress(address: string | undefined): string {
  return (address ?? "").replace(/^::ffff:(?=\d+\.)/i, "");
}

export function renderText(answer: EchoAnswer): string {
  const where = [answer.cluster, answer.node, `${answer.namespace}/${answer.pod}`].filter((it) => it !== "");
  return `${where.join(" ")} saw ${answer.clientAddress} ask ${answer.method} ${answer.path}\n`;
}

/** One wish of a request, given as a query parameter; the others keep their defaults. */
export interface EchoWish {
  /** Unit: milliseconds. */
  readonly delayMs: number;
  readonly status: number;
  readonly json: boolean;
}

/** Reads `?delay=MS`, `?status=CODE` and `?format=json|text`; the Accept header decides when there is no format. */
export function readWish(query: URLSearchParams, accept: string | undefined): EchoWish {
  const format = query.get("format");
  return {
    delayMs: wholeNumber(query.get("delay"), 0, 600_000) ?? 0,
    status: wholeNumber(query.get("status"), 200, 599) ?? 200,
    json: format === null ? (accept ?? "").includes("application/json") : format === "json",
  };
}

function wholeNumber(text: string | null, min: number, max: number): number | undefined {
  const value = text === null || text === "" ? Number.NaN : Number(text);
  return Number.isInteger(value) && value >= min && value <= max ? value : undefined;
}
