import { METHODS } from "node:http";
import { methodNotAllowed } from "#status.ts";

/** Answers to what the HTTP parser gives up on, in the words of Go's server (net/http, server.go). */

/** An error of Node's parser, with the bytes in which it found it. */
export interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer;
}

const KNOWN: ReadonlySet<string> = new Set(METHODS);
/** RFC 9110, section 5.6.2: `token`. Any may be a method. */
const METHOD = /^([!#$%&'*+.^_`|~\dA-Za-z-]{1,64}) /;

/** The whole answer, after which the connection ends; undefined where the connection itself has failed. */
export function answerTo({ code = "", rawPacket }: ParserError): string | undefined {
  if (code === "HPE_HEADER_OVERFLOW") return plain("431 Request Header Fields Too Large");
  if (!code.startsWith("HPE_") || code === "HPE_INVALID_EOF_STATE") return undefined;
  const method = METHOD.exec(rawPacket?.subarray(0, 128).toString("latin1").trimStart() ?? "")?.[1];
  if (code !== "HPE_INVALID_METHOD" || method === undefined || KNOWN.has(method)) {
    return plain("400 Bad Request");
  }
  const { status } = methodNotAllowed();
  return response("405 Method Not Allowed", "application/json", `${JSON.stringify(status)}\n`);
}

function plain(status: string): string {
  return response(status, "text/plain; charset=utf-8", status);
}

function response(status: string, type: string, body: string): string {
  const headers = [
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ];
  return [`HTTP/1.1 ${status}`, ...headers, "", body].join("\r\n");
}
