/**
 * Captures what arrives by devices, and counts frames that hold one of some byte strings in the clear, at any place: the addresses of a
 * packet that is not encrypted, however it is encapsulated. Says `ready`, captures until its standard input ends, and prints a JSON object.
 *
 * Usage: clear-capture.ts PLACES NEEDLES (JSON: of PacketPlace; of hexadecimal text)
 */
import { loadLibC } from "@fairlead/os/libc/libc.ts";
import { awaitFrames, openPacketSocket, type PacketPlace } from "@fairlead/os/packet/socket.ts";

/** So often it is looked whether to end. Unit: milliseconds. */
const TURN_MS = 20;

const [places = "[]", needles = "[]"] = process.argv.slice(2);
const libc = await loadLibC();
if (libc === undefined) throw new Error("this machine has no C library that can be used");
const sockets = (JSON.parse(places) as readonly PacketPlace[]).map((it) => openPacketSocket(libc, it));
const wanted = (JSON.parse(needles) as readonly string[]).map((it) => Buffer.from(it, "hex"));
const stop = new AbortController();
process.stdin.on("end", () => stop.abort());
process.stdin.resume();
process.stdout.write("ready\n");

let frames = 0;
let inClear = 0;
let first = "";
function drain(): void {
  for (const socket of sockets)
    for (let frame = socket.receive(); frame !== undefined; frame = socket.receive()) {
      frames += 1;
      const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
      if (!wanted.some((it) => bytes.includes(it))) continue;
      inClear += 1;
      if (first === "") first = bytes.toString("hex", 0, 200);
    }
}

while (!stop.signal.aborted) {
  awaitFrames(libc, sockets, TURN_MS);
  drain();
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}
drain();
process.stdout.write(`${JSON.stringify({ frames, inClear, first })}\n`);
