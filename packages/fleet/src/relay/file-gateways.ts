import { readFile } from "node:fs/promises";
import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { parseGateways, type RelayGateway } from "./gateway-keys.ts";

/** How often the file is looked at. Unit: milliseconds. */
const POLL_MS = 5000;

/**
 * Follows the gateways of a file, until `signal` aborts. A file that becomes invalid changes nothing.
 *
 * @throws {FleetError} `OPTION_INVALID` if it is invalid or cannot be read at first.
 */
export async function followFile(
  path: string,
  setGateways: (gateways: Iterable<RelayGateway>) => Promise<void>,
  { clock, log }: Pick<RuntimeDeps, "clock" | "log">,
  signal: AbortSignal,
): Promise<void> {
  let text = await read(path);
  await setGateways(parseGateways(text));
  const follow = async (): Promise<void> => {
    for (;;) {
      await delay(clock, POLL_MS, signal);
      try {
        const next = await read(path);
        if (next === text) continue;
        text = next;
        await setGateways(parseGateways(text));
      } catch (error) {
        log.error("cannot follow the file of gateways", { error: messageOf(error) });
      }
    }
  };
  follow().catch(() => {});
}

async function read(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", `cannot read ${path} (--gateways)`, { cause });
  }
}
