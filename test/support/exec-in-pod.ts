/** `kubectl exec` without kubectl: a process of its own for each question costs more than the answer. */

import { isObject } from "@fairlead/base/json.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { WebSocket } from "ws";

/** Channels of the protocol. Source: k8s.io/apimachinery, pkg/util/remotecommand. */
const PROTOCOL = "v5.channel.k8s.io";
const STDOUT = 1;
const STDERR = 2;
const STATUS = 3;
/** Unit: milliseconds. */
const TIMEOUT_MS = 60_000;

/** @returns What it printed. @throws With what it printed to standard error, if it does not end with 0. */
export async function execInPod(
  config: ClusterConfig,
  pod: { readonly namespace: string; readonly name: string },
  command: readonly string[],
): Promise<string> {
  const { certificate, key } = await config.credentials.current();
  const query = command.map((it) => `command=${encodeURIComponent(it)}`).join("&");
  const url = `${config.server.replace("https", "wss")}/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/exec?stdout=true&stderr=true&${query}`;
  const socket = new WebSocket(url, [PROTOCOL], { ca: config.ca, cert: certificate, key });
  const said = new Map<number, Buffer[]>([STDOUT, STDERR, STATUS].map((it) => [it, []]));
  const textOf = (channel: number): string => Buffer.concat(said.get(channel) ?? []).toString("utf8");
  const timer = setTimeout(() => socket.terminate(), TIMEOUT_MS);
  try {
    await new Promise<void>((resolve, reject) => {
      socket.on("message", (data: Buffer) => void said.get(data[0] ?? 0)?.push(data.subarray(1)));
      socket.once("error", reject);
      socket.once("close", () => resolve());
    });
  } finally {
    clearTimeout(timer);
  }
  const status: unknown = JSON.parse(textOf(STATUS) || "null");
  if (isObject(status) && status["status"] === "Success") return textOf(STDOUT);
  const where = `${command.join(" ").slice(0, 300)} in ${pod.namespace}/${pod.name}`;
  throw new Error(`${where} failed: ${textOf(STATUS) || "the connection ended"}\n${textOf(STDERR)}`);
}
