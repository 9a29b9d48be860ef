import { createSocket } from "node:dgram";

/**
 * Sends datagrams as fast as one process can, in turn to each port and with each payload, and prints how many it sent in
 * how many milliseconds.
 *
 * Usage: udp-flood.ts HOST FIRST_PORT PORTS COUNT PAYLOAD... (Base64)
 */
const [host = "", firstPort, ports, count, ...payloads] = process.argv.slice(2);
const bytes = payloads.map((it) => Buffer.from(it, "base64"));
const socket = createSocket({
  type: host.includes(":") ? "udp6" : "udp4",
  sendBufferSize: 1 << 21,
  lookup: (name, _options, callback) => callback(null, name, name.includes(":") ? 6 : 4),
});
socket.bind();
const began = performance.now();
let sent = 0;
/** Between them the loop has to turn, or datagrams would only be queued. */
const BURST = 64;

function burst(): void {
  for (let at = 0; at < BURST && sent < Number(count); at++, sent++)
    socket.send(bytes[sent % bytes.length] ?? "", Number(firstPort) + (sent % Number(ports)), host, () => {});
  if (sent < Number(count)) setImmediate(burst);
  else
    socket.close(() => {
      process.stdout.write(`${JSON.stringify({ sent, ms: performance.now() - began })}\n`);
    });
}
burst();
