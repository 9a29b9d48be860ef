/** Programs that send real datagrams between places of a lab, from a port of their own. */

import type { ChildProcess } from "node:child_process";
import { start } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { until } from "../support/waiting.ts";

/** A socket in a network namespace; each datagram that arrives there is answered with where it came from. */
export interface Peer extends AsyncDisposable {
  /** Sends to a peer until it answers. @returns The sender's address and port as the peer saw them. */
  seenBy(address: string, port: number): Promise<string>;
  /** Sends once, and waits for nothing. @param size - Of what the datagram holds. Unit: bytes. */
  send(address: string, port: number, size?: number): void;
  /** Senders whose datagrams arrived, each once, by address and port. */
  received(): readonly string[];
}

const PROGRAM = `
const [type, port] = process.argv.slice(1);
const socket = require("node:dgram").createSocket(type);
const say = (line) => process.stdout.write(line + "\\n");
socket.on("message", (data, from) => {
  const [kind, rest] = data.toString().split(" ");
  say([kind, from.address, from.port, rest ?? ""].join(" "));
  if (kind === "ask") socket.send("seen " + from.address + "/" + from.port, from.port, from.address);
});
socket.on("error", () => {});
socket.bind(Number(port), () => say("ready"));
let text = "";
process.stdin.on("data", (data) => {
  text += data;
  const lines = text.split("\\n");
  text = lines.pop();
  for (const [address, to, size] of lines.map((it) => it.split(" ")))
    socket.send("ask ".padEnd(Number(size)), Number(to), address, () => {});
});
`;

export async function startPeer(netns: string, port: number, type: "udp4" | "udp6" = "udp4"): Promise<Peer> {
  const line = inNetns(netns, process.execPath, ["-e", PROGRAM, type, String(port)]);
  const child: ChildProcess = start(line.command, line.args, { stdio: ["pipe", "pipe", "inherit"] });
  const lines: string[][] = [];
  let rest = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    const parts = (rest + chunk.toString("utf8")).split("\n");
    rest = parts.pop() ?? "";
    lines.push(...parts.map((it) => it.split(" ")));
  });
  const find = (kind: string, address?: string, from?: number) =>
    lines.find(
      (it) => it[0] === kind && (address === undefined || (it[1] === address && it[2] === String(from))),
    );
  await until(
    "the peer listens",
    () => Promise.resolve(find("ready")),
    (it) => it !== undefined,
  );
  const send = (address: string, to: number, size = 4): void =>
    void child.stdin?.write(`${address} ${to} ${size}\n`);
  return {
    send,
    async seenBy(address, to) {
      const answer = await until(
        `${address} port ${to} answers`,
        async () => {
          send(address, to);
          return Promise.resolve(find("seen", address, to));
        },
        (it) => it !== undefined,
      );
      return answer?.[3] ?? "";
    },
    received: () => [...new Set(lines.filter((it) => it[0] === "ask").map((it) => `${it[1]}/${it[2]}`))],
    async [Symbol.asyncDispose]() {
      const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
      child.kill("SIGKILL");
      await ended;
    },
  };
}
