import { Command } from "@commander-js/extra-typings";
import { systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { collect } from "@fairlead/base/program/flags.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import { runWire } from "@fairlead/lab/wire/wire.ts";
import { loadLibC } from "@fairlead/os/libc/libc.ts";
import type { PacketPlace } from "@fairlead/os/packet/socket.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The wire of one link of a lab. */
export function command(): Program {
  return new Command("lab-wire")
    .description("carry the packets of a link of a lab with a delay, on a kernel without netem")
    .requiredOption("--end <netns:device>", "an end of the link, given twice", collect)
    .requiredOption("--delay-file <file>", "file with the delay of each direction, in milliseconds")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("lab-wire", flags, async ({ signal, ready }) => {
        const [a, b, ...more] = flags.end.map(parseEnd);
        if (a === undefined || b === undefined || more.length > 0)
          throw new FleetError("OPTION_INVALID", "a wire has two ends: pass --end twice");
        const libc = await loadLibC();
        if (libc === undefined)
          throw new FleetError(
            "LAB_UNSUPPORTED",
            "cannot delay packets: neither the kernel has netem nor this installation a foreign function interface (koffi)",
          );
        await runWire(
          { ends: [a, b], delayFile: flags.delayFile },
          { libc, clock: systemClock, ready },
          signal,
        );
      }),
    );
}

/** The name of a device has no colon. */
function parseEnd(text: string): PacketPlace {
  const at = text.lastIndexOf(":");
  return { netns: text.slice(0, at), device: text.slice(at + 1) };
}
