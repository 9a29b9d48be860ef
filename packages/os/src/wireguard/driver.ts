import type { SetEndpoints, WireguardChange } from "./diff.ts";
import type { ActualDevice } from "./state.ts";

/** Back end of the WireGuard driver. Implementations: kernel.ts, userspace.ts, fake.ts. Callers use devices.ts. */
export interface WireguardDriver extends Disposable {
  readonly kind: "kernel" | "wireguard-go" | "fake";
  /** Names of the devices. */
  list(signal: AbortSignal): Promise<readonly string[]>;
  /** Undefined if there is no such device, or if nothing serves it. */
  read(name: string, signal: AbortSignal): Promise<ActualDevice | undefined>;
  /** Makes the device, without configuration and down. Completes what was begun; does nothing to a device that is there. */
  create(name: string, mtu: number, signal: AbortSignal): Promise<void>;
  /** Brings the device up, with this MTU. */
  setUp(name: string, mtu: number, signal: AbortSignal): Promise<void>;
  change(name: string, change: WireguardChange, signal: AbortSignal): Promise<void>;
  /** Removes the device, and the process that serves it. An absent device is not an error. */
  remove(name: string, signal: AbortSignal): Promise<void>;
}

/** Keeps the endpoints that were applied last beyond a restart. */
export interface EndpointRecords {
  read(name: string): Promise<SetEndpoints>;
  write(name: string, endpoints: SetEndpoints): Promise<void>;
}
