/**
 * Makes flows for as long as it lives, in a pod: one process, because a program for each flow costs ten times as much as
 * the flow, and plain sockets, because an HTTP client costs twice as much. Prints a line for each: when it began, and the
 * answer or the error.
 *
 *   node flow-client.ts URL own|kernel|both
 */

import { connect, type Socket } from "node:net";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

/** A flow gives up after this. Unit: milliseconds. */
const FLOW_MS = 2000;
/** From the end of a flow until the next one begins. Unit: milliseconds. */
const PAUSE_MS = 40;

const [target = "", ports = "own"] = process.argv.slice(2);
const url = new URL(target);
const to = { host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || 80) };
const question = `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nAccept: application/json\r\n\r\n`;

/** As curl: a separate connection, which the client closes. */
function answerTo(localPort: number | undefined): Promise<string> {
  const began = performance.now();
  return new Promise((resolve) => {
    const socket: Socket = connect(localPort === undefined ? to : { ...to, localPort });
    let from = localPort ?? 0;
    let text = "";
    const end = (line: string): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(line);
    };
    const fail = (why: string): void => {
      const seconds = ((performance.now() - began) / 1000).toFixed(6);
      end(`no answer after ${seconds} s: ${why}; from port ${from}`);
    };
    const timer = setTimeout(() => fail("the time is over"), FLOW_MS);
    socket.setEncoding("utf8");
    socket.on("connect", () => (from = socket.localPort ?? from));
    socket.on("error", (error: NodeJS.ErrnoException) => fail(`${error.code}: ${error.message}`));
    socket.on("end", () => fail("the server closed the connection"));
    socket.on("data", (chunk: string) => {
      text += chunk;
      const answer = bodyOf(text);
      if (answer !== undefined) end(answer);
    });
    socket.write(question);
  });
}

/** The body once all of it is there: the echo server sends its length. */
function bodyOf(text: string): string | undefined {
  const at = text.indexOf("\r\n\r\n");
  if (at < 0) return undefined;
  const length = Number(/^content-length: (\d+)\r?$/im.exec(text.slice(0, at))?.[1]);
  const body = text.slice(at + 4);
  return Buffer.byteLength(body) >= length ? body.trim() : undefined;
}

async function flow(localPort: number | undefined): Promise<void> {
  const startedAtMs = Date.now();
  process.stdout.write(`${startedAtMs} ${await answerTo(localPort)}\n`);
}

for (let port = 1024; ;) {
  if (ports !== "own") await flow(undefined);
  port = port < 65_535 ? port + 1 : 1024;
  if (ports !== "kernel") await flow(port);
  await pause(PAUSE_MS);
}
