import { closeSync, openSync, readSync } from "node:fs";
import { inNamespace, type LibC } from "./libc.ts";

/** How many packets the devices of a network namespace have sent and received. */
export interface DeviceCounters extends Disposable {
  read(): ReadonlyMap<string, number>;
}

/** Of all devices. Unit: bytes. */
const TEXT_BYTES = 256 * 1024;

/** @throws {FleetError} `EXEC_FAILED` if the namespace cannot be entered. */
export function openDeviceCounters(libc: LibC, netns: string): DeviceCounters {
  // The file stays that of the namespace in which it was opened (proc_pid_net(5)).
  const fd = inNamespace(libc, netns, () => openSync("/proc/thread-self/net/dev", "r"));
  const text = Buffer.alloc(TEXT_BYTES);
  return {
    read: () => parseDeviceCounters(text.toString("latin1", 0, readSync(fd, text, 0, text.length, 0))),
    [Symbol.dispose]: () => closeSync(fd),
  };
}

/** Of `/proc/net/dev`: after the name, received bytes and packets are the first two numbers, sent ones the ninth and tenth. */
export function parseDeviceCounters(text: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const line of text.split("\n")) {
    const end = line.indexOf(":");
    if (end < 0) continue;
    const numbers = line
      .slice(end + 1)
      .trim()
      .split(/\s+/)
      .map(Number);
    found.set(line.slice(0, end).trim(), (numbers[1] ?? 0) + (numbers[9] ?? 0));
  }
  return found;
}
