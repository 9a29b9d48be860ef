/** What is probed between two clusters, and what is found. Shared by the command and the program in its pods. */

import type { AddressFamily } from "@fairlead/base/netaddr/address.ts";

export const CHECKS = [
  "import",
  "tcp",
  "large",
  "udp",
  "icmp",
  "mtu",
  "service-tcp",
  "service-udp",
  "dns-service",
  "dns-pods",
] as const;
export type Check = (typeof CHECKS)[number];
/** Those that pods carry out. "import" fails if they cannot. */
export const PROBES = CHECKS.filter((it) => it !== "import");

/** By family; absent where there is no address. */
export type ByFamily = Readonly<Partial<Record<AddressFamily, string>>>;

/** A cluster as another one sees it. */
export interface Target {
  readonly cluster: string;
  /** Address of its pod: the exported one, which is a fleet address where members have those. */
  readonly pods: ByFamily;
  /** Addresses of its ServiceImport. */
  readonly vips: ByFamily;
  /** The whole names of that service, and of the headless one whose endpoint is the pod. */
  readonly names: { readonly service: string; readonly pods: string };
}

/** The task of the program in a pod. */
export interface ProbePlan {
  readonly checks: readonly Check[];
  readonly targets: readonly Target[];
  /** How long a check is repeated until it passes. Unit: milliseconds. */
  readonly settleMs: number;
}

export type ProbeStatus = "passed" | "failed" | "skipped";

/** A finding of the program in a pod. */
export interface Finding {
  readonly to: string;
  readonly check: Check;
  readonly family: AddressFamily;
  readonly status: ProbeStatus;
  /** Duration of the last attempt. Unit: milliseconds. */
  readonly ms: number;
  /** What was found; of a check that passed, what is worth knowing. */
  readonly detail: string;
  /** Of "mtu": the largest packet that passes. Unit: bytes. */
  readonly mtu?: number;
}

export interface Result extends Finding {
  readonly from: string;
}

/** TCP and UDP, of every server pod. */
export const SERVER_PORT = 7575;
/** Last line of a program that has done its task. */
export const DONE = "done";

/** IPv6 requires it of every link (RFC 8200, section 5); nothing less is worth calling a path. Unit: bytes. */
export const LEAST_MTU = 1280;
