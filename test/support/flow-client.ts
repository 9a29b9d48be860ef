/**
 * Makes flows for as long as it lives, in a pod: one process, because a program for each flow costs ten times as much as
 * the flow. Prints a line for each: when it began, and the answer or the error.
 *
 *   node flow-client.ts URL own|kernel|both
 */

import { Agent, get } from "node:http";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

/** A flow gives up after this. Unit: milliseconds. */
const FLOW_MS = 2000;
/** From the end of a flow until the next one begins. Unit: milliseconds. */
const PAUSE_MS = 40;

const [url = "", ports = "own"] = process.argv.slice(2);

/** As curl: a separate connection, which the client closes. */
function answerTo(localPort: number | undefined): Promise<string> {
  const began = performance.now();
  const headers = { accept: "application/json", connection: "keep-alive" };
  return new Promise((resolve) => {
    const request = get(url, {
      agent: new Agent({ keepAlive: false }),
      headers,
      signal: AbortSignal.timeout(FLOW_MS),
      ...(localPort === undefined ? {} : { localPort }),
    });
    let from = localPort ?? 0;
    const fail = (error: Error & { readonly code?: string }): void => {
      const seconds = ((performance.now() - began) / 1000).toFixed(6);
      const why = error.name === "AbortError" ? "the time is over" : `${error.code}: ${error.message}`;
      resolve(`no answer after ${seconds} s: ${why}; from port ${from}`);
    };
    request.on("error", fail);
    request.on("socket", (socket) => {
      socket.on("connect", () => (from = socket.localPort ?? from));
    });
    request.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("error", fail);
      response.on("data", (chunk: string) => (text += chunk));
      response.on("end", () => {
        request.destroy();
        resolve(text.trim());
      });
    });
  });
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
