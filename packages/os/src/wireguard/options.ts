import type { Clock } from "@fairlead/base/clock.ts";

export interface WireguardOptions {
  /** Folder of one node: sockets and logs of wireguard-go, and records. Made as needed. */
  readonly folder: string;
  /** File of the network namespace in which the devices are. */
  readonly netns: string;
  /** File of the network namespace in which their UDP sockets are. Default: that of this process. */
  readonly birthNetns?: string;
  /**
   * Folder of a cgroup (version 2) for the processes of wireguard-go. Without it they are in that of this process, and end with it
   * when it is a container's. Made as needed, not its parents.
   */
  readonly cgroup?: string;
  readonly clock: Clock;
  /** The process that serves a device has ended, and with it the device: apply it again. */
  readonly onLost?: (device: string) => void;
}
