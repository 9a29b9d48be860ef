/**
 * In a pod: sends datagrams and writes of each size to the server of `size-server.ts`, and compares what comes back. Prints the sizes that did not come
 * back whole, by address. Arguments: addresses, port, the least and the greatest size of packets.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect } from "node:net";

/** A packet that is too large for the way is lost once, by which the kernel learns how large it may be. */
const TRIES = 5;
/** Unit: milliseconds. */
const ANSWER_MS = 1000;
const AT_ONCE = 16;
const BULK_BYTES = 4_000_000;

const [list = "", port = "", least = "", greatest = ""] = process.argv.slice(2);

function bytesOf(length: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, at) => (at * 31 + length) & 255));
}

async function comesBack(address: string, size: number): Promise<boolean> {
  const isIPv6 = address.includes(":");
  const bytes = bytesOf(size - (isIPv6 ? 48 : 28));
  const socket = createSocket(isIPv6 ? "udp6" : "udp4");
  socket.on("error", () => {});
  try {
    for (let at = 0; at < TRIES; at += 1) {
      socket.send(bytes, Number(port), address, () => {});
      const signal = AbortSignal.timeout(ANSWER_MS);
      const [answer] = (await once(socket, "message", { signal }).catch(() => [])) as [Buffer?];
      if (answer?.equals(bytes) === true) return true;
    }
    return false;
  } finally {
    socket.close();
  }
}

async function lostDatagrams(address: string): Promise<readonly number[]> {
  const lost: number[] = [];
  let next = Number(least);
  const ask = async (): Promise<void> => {
    while (next <= Number(greatest)) {
      const size = next++;
      if (!(await comesBack(address, size))) lost.push(size);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, ask));
  return lost.toSorted((a, b) => a - b);
}

async function partOf(answers: AsyncIterator<Buffer, undefined>): Promise<Buffer> {
  const { value, done } = await answers.next();
  if (done === true) throw new Error("the connection has ended");
  return value;
}

/** Writes of each size, one by one, and then of many segments. */
async function lostWrites(address: string): Promise<readonly number[]> {
  const socket = connect({ host: address, port: Number(port), noDelay: true });
  const lost: number[] = [];
  const sizes = [...Array.from({ length: 301 }, (_, at) => 1200 + at), BULK_BYTES];
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(TRIES * ANSWER_MS) });
    socket.setTimeout(20 * ANSWER_MS, () => socket.destroy(new Error("no answer")));
    const answers = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
    for (const size of sizes) {
      const bytes = bytesOf(size);
      socket.write(bytes);
      const parts: Buffer[] = [];
      for (let left = size; left > 0; left -= parts.at(-1)?.length ?? 0) parts.push(await partOf(answers));
      if (!Buffer.concat(parts).equals(bytes)) lost.push(size);
    }
  } catch {
    lost.push(0);
  }
  socket.destroy();
  return lost;
}

const result: Record<string, object> = {};
for (const address of list.split(","))
  result[address] = { datagrams: await lostDatagrams(address), writes: await lostWrites(address) };
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit());
