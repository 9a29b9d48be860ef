import { FleetError } from "@fairlead/base/errors.ts";
import { findProgram } from "@fairlead/base/find-program.ts";
import { WireguardDevices } from "./devices.ts";
import { createKernelDriver, kernelHasWireguard } from "./kernel.ts";
import type { WireguardOptions } from "./options.ts";
import { fileRecords } from "./records.ts";
import { createUserspaceDriver } from "./userspace.ts";

/**
 * The WireGuard devices of a node: the kernel's where it has them, else those of wireguard-go. Devices of wireguard-go that
 * exist are kept, also when the kernel has learned WireGuard since.
 *
 * @throws {FleetError} `WIREGUARD_FAILED`, with what to install, where there is neither.
 */
export async function openWireguard(
  options: WireguardOptions,
  signal: AbortSignal,
): Promise<WireguardDevices> {
  const userspace = createUserspaceDriver(options);
  const records = fileRecords(options.folder);
  const has = (program: string): boolean =>
    findProgram(program, "/usr/local/sbin:/usr/local/bin") !== undefined;
  if ((await userspace.list(signal)).length > 0) return new WireguardDevices(userspace, records);
  const isInKernel = await kernelHasWireguard(signal);
  if (isInKernel && has("wg")) return new WireguardDevices(createKernelDriver(options), records);
  if (has("wireguard-go")) return new WireguardDevices(userspace, records);
  throw new FleetError(
    "WIREGUARD_FAILED",
    isInKernel
      ? "cannot configure the kernel's WireGuard: the program wg is missing; install the Debian package wireguard-tools"
      : "this machine has no WireGuard: its kernel lacks the module, and wireguard-go is missing; load the module (modprobe wireguard) and install the Debian package wireguard-tools, or install wireguard-go",
  );
}
