import { createSocket } from "node:dgram";
import { isIPv6 } from "node:net";
import { get } from "node:http";
import type { Dial } from "./netexec.ts";

/** How long one request may take. Unit: milliseconds. */
const PATIENCE_MS = 5000;

/** Makes the requests one after another: a JSON text with what was answered and what failed. */
export async function dial(order: Dial): Promise<string> {
  const responses: string[] = [];
  const errors: string[] = [];
  for (let at = 0; at < order.tries; at++)
    try {
      responses.push(await (order.protocol === "udp" ? askUdp(order) : askHttp(order)));
    } catch (error) {
      errors.push(error instanceof Error ? error.message : String(error));
    }
  return JSON.stringify({
    ...(responses.length > 0 ? { responses } : {}),
    ...(errors.length > 0 ? { errors } : {}),
  });
}

function askHttp({ host, port, request }: Dial): Promise<string> {
  const name = isIPv6(host) ? `[${host}]` : host;
  return new Promise((resolve, reject) => {
    const url = `http://${name}:${port}/${request}`;
    const asked = get(url, { agent: false, timeout: PATIENCE_MS }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => (text += part));
      response.on("end", () => resolve(text));
      response.on("error", reject);
    });
    asked.on("timeout", () => asked.destroy(new Error(`GET ${url}: i/o timeout`)));
    asked.on("error", reject);
  });
}

function askUdp({ host, port, request }: Dial): Promise<string> {
  const socket = createSocket(isIPv6(host) ? "udp6" : "udp4");
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const timer = AbortSignal.timeout(PATIENCE_MS);
  timer.addEventListener("abort", () => reject(new Error(`udp ${host}:${port}: i/o timeout`)));
  socket.on("error", reject);
  socket.on("message", (data) => resolve(data.toString("utf8")));
  socket.send(request, port, host, (error) => {
    if (error !== null) reject(error);
  });
  return promise.finally(() => socket.close());
}
