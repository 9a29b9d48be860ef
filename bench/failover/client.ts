/**
 * In a pod: datagrams at 1 kHz over several flows, and TCP connections that exchange a byte all the time, with the server of
 * `server.ts`, in all of its families in turn. Prints what was lost. Arguments: addresses of the server, seconds.
 */
import { createSocket, type Socket } from "node:dgram";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { PORT, type Result } from "./result.ts";

const FLOWS = 16;
const CONNECTIONS = 8;
/** Unit: milliseconds. */
const TCP_EVERY_MS = 5;
/** For answers to the last datagrams. Unit: milliseconds. */
const LAST_MS = 2000;

const [list = "", seconds = "10"] = process.argv.slice(2);
const addresses = list.split(",");
const addressOf = (flow: number): string => addresses[flow % addresses.length] ?? "";
const total = Number(seconds) * 1000;
const sentAt = new Float64Array(total);
const isAnswered = new Uint8Array(total);
let sent = 0;

const sockets: Socket[] = Array.from({ length: FLOWS }, (_, flow) => {
  const socket = createSocket(addressOf(flow).includes(":") ? "udp6" : "udp4");
  socket.on("error", () => {});
  socket.on("message", (bytes) => (isAnswered[bytes.readUInt32BE(0)] = 1));
  return socket;
});

const connections = Array.from({ length: CONNECTIONS }, (_, flow) => {
  const socket = connect({ host: addressOf(flow), port: PORT, noDelay: true });
  const state = { isOpen: false, longestMs: 0, lastMs: performance.now() };
  const note = (): void => {
    const now = performance.now();
    state.longestMs = Math.max(state.longestMs, now - state.lastMs);
    state.lastMs = now;
  };
  socket.on("connect", () => {
    state.isOpen = true;
    state.lastMs = performance.now();
    socket.write("x");
  });
  socket.on("data", () => {
    note();
    setTimeout(() => socket.write("x"), TCP_EVERY_MS);
  });
  socket.on("error", () => {});
  socket.on("close", () => (state.isOpen = false));
  return { state, note };
});

await sleep(1000);
const startedMs = performance.now();
await new Promise<void>((resolve) => {
  const timer = setInterval(() => {
    const due = Math.min(total, Math.floor(performance.now() - startedMs));
    for (; sent < due; sent += 1) {
      const bytes = Buffer.alloc(64);
      bytes.writeUInt32BE(sent, 0);
      sentAt[sent] = performance.now();
      sockets[sent % FLOWS]?.send(bytes, PORT, addressOf(sent % FLOWS), () => {});
    }
    if (sent < total) return;
    clearInterval(timer);
    resolve();
  }, 1);
});
await sleep(LAST_MS);
for (const { note } of connections) note();

const lost = Array.from(isAnswered.keys()).filter((it) => isAnswered[it] === 0);
const [first, last] = [lost[0], lost.at(-1)];
const result: Result = {
  sent,
  lost: lost.length,
  outageMs: first === undefined || last === undefined ? 0 : (sentAt[last] ?? 0) - (sentAt[first] ?? 0),
  tcpKept: connections.filter(({ state }) => state.isOpen).length,
  tcp: CONNECTIONS,
  tcpSilentMs: Math.max(...connections.map(({ state }) => state.longestMs)),
};
console.log(JSON.stringify(result));
process.exit();
