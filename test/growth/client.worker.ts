import { Agent, request } from "node:https";
import { parentPort, workerData } from "node:worker_threads";
import type { Sent, Target } from "./turns.ts";

/** Sends one request after the other, in a thread of its own: its work does not count as the server's. */

const { port, ca, cert, key } = workerData as Target;
const agent = new Agent({ keepAlive: true, maxSockets: 1, ca, cert, key });

parentPort?.on("message", ({ method, path, type, accept, body = "" }: Sent) => {
  const headers = {
    "Content-Length": Buffer.byteLength(body),
    ...(type === undefined ? {} : { "Content-Type": type }),
    ...(accept === undefined ? {} : { Accept: accept }),
  };
  const outgoing = request({ host: "127.0.0.1", port, method, path, agent, headers }, (answer) => {
    answer.resume();
    answer.once("end", () => parentPort?.postMessage(answer.statusCode));
  });
  outgoing.once("error", () => parentPort?.postMessage(0));
  outgoing.end(body);
});
