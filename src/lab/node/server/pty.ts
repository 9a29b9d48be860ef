import { closeSync, constants, openSync } from "node:fs";
import { endianness } from "node:os";
import { ReadStream } from "node:tty";
import { FleetError } from "#base/errors.ts";
import type { TerminalSize } from "./channels.ts";

/** Pseudo-terminals, by ioctl: Node opens none itself. */

export interface Pty {
  /** Descriptor of the program's end. To be closed here once the program has it. */
  readonly terminal: number;
  closeTerminal(): void;
  /** The other end: what the program prints is read from it, what is written to it the program reads. */
  readonly stream: ReadStream;
  resize(size: TerminalSize): void;
}

/** asm-generic/ioctls.h; the same on x86-64 and arm64. */
const TIOCSWINSZ = 0x5414n;
const TIOCSPTLCK = 0x40045431n;
const TIOCGPTN = 0x80045430n;

/**
 * Opens a pseudo-terminal of the container's own devpts, so that its programs find their terminal by name.
 *
 * @param pid - A process in the container.
 */
export async function openPty(pid: number): Promise<Pty> {
  const ioctl = await loadIoctl();
  const devpts = `/proc/${pid}/root/dev/pts`;
  const master = openSync(`${devpts}/ptmx`, constants.O_RDWR | constants.O_NOCTTY);
  const number = Buffer.alloc(4);
  if (ioctl(master, TIOCSPTLCK, Buffer.alloc(4)) !== 0 || ioctl(master, TIOCGPTN, number) !== 0) {
    closeSync(master);
    throw new FleetError("EXEC_FAILED", "cannot open a pseudo-terminal");
  }
  const index = endianness() === "LE" ? number.readUInt32LE() : number.readUInt32BE();
  const terminal = openSync(`${devpts}/${index}`, constants.O_RDWR | constants.O_NOCTTY);
  const stream = new ReadStream(master);
  // Reading fails with EIO once the last program has closed its end: that is how a terminal ends.
  stream.on("error", () => stream.destroy());
  let isOpen = true;
  return {
    terminal,
    closeTerminal: () => {
      if (isOpen) closeSync(terminal);
      isOpen = false;
    },
    stream,
    resize: ({ width, height }) => {
      const size = Buffer.from(new Uint16Array([height, width, 0, 0]).buffer);
      if (!stream.destroyed) ioctl(master, TIOCSWINSZ, size);
    },
  };
}

type Ioctl = (fd: number, request: bigint, argument: Buffer) => number;

async function loadIoctl(): Promise<Ioctl> {
  const { default: koffi } = await import("koffi");
  const ioctl = koffi
    .load("libc.so.6")
    .func("int ioctl(int fd, unsigned long request, _Inout_ void *argument)");
  return (fd, request, argument) => Number(ioctl(fd, request, argument));
}
