import { closeSync, constants, openSync } from "node:fs";
import { endianness } from "node:os";
import { FleetError } from "@fairlead/base/errors.ts";

/** Pseudo-terminals, by ioctl: Node opens none itself. */

export interface TerminalSize {
  readonly width: number;
  readonly height: number;
}

/** Both ends of a pseudo-terminal, as descriptors that are to be closed. */
export interface Terminal {
  /** What the program prints is read from it, what is written to it the program reads. */
  readonly master: number;
  /** The program's end. */
  readonly slave: number;
  /** Of the program's end. */
  readonly path: string;
}

/** asm-generic/ioctls.h; the same on x86-64 and arm64. */
const TIOCSWINSZ = 0x5414n;
const TIOCSPTLCK = 0x40045431n;
const TIOCGPTN = 0x80045430n;

/**
 * @param devpts - A folder on which devpts is mounted: the machine's, or that of a container.
 * @param ptmx - Its multiplexer. The multiplexer in the machine's own folder may be closed to every user.
 */
export async function openTerminal(devpts: string, ptmx = `${devpts}/ptmx`): Promise<Terminal> {
  const ioctl = await loadIoctl();
  const master = openSync(ptmx, constants.O_RDWR | constants.O_NOCTTY);
  const number = Buffer.alloc(4);
  if (ioctl(master, TIOCSPTLCK, Buffer.alloc(4)) !== 0 || ioctl(master, TIOCGPTN, number) !== 0) {
    closeSync(master);
    throw new FleetError("EXEC_FAILED", "cannot open a pseudo-terminal");
  }
  const path = `${devpts}/${endianness() === "LE" ? number.readUInt32LE() : number.readUInt32BE()}`;
  return { master, slave: openSync(path, constants.O_RDWR | constants.O_NOCTTY), path };
}

/** Sets the size of a terminal. @param fd - Either end of it. */
export async function resizeTerminal(fd: number, { width, height }: TerminalSize): Promise<void> {
  const ioctl = await loadIoctl();
  ioctl(fd, TIOCSWINSZ, Buffer.from(new Uint16Array([height, width, 0, 0]).buffer));
}

type Ioctl = (fd: number, request: bigint, argument: Buffer) => number;

async function loadIoctl(): Promise<Ioctl> {
  const { default: koffi } = await import("koffi");
  const ioctl = koffi
    .load("libc.so.6")
    .func("int ioctl(int fd, unsigned long request, _Inout_ void *argument)");
  return (fd, request, argument) => Number(ioctl(fd, request, argument));
}
