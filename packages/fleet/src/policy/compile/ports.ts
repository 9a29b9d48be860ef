import type { PortMatch, Transport } from "../model.ts";
import { type Refuse, shown } from "./part.ts";

export const TRANSPORTS: readonly Transport[] = ["TCP", "UDP", "SCTP"];
export const MAX_PORT = 65_535;

export function isTransport(value: unknown): value is Transport {
  return value === "TCP" || value === "UDP" || value === "SCTP";
}

export function isPort(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= MAX_PORT;
}

export function allPorts(protocol: Transport): PortMatch {
  return { kind: "range", protocol, first: 0, last: MAX_PORT };
}

export function refusePort(field: string, value: unknown, refuse: Refuse): undefined {
  return refuse(
    field,
    `${shown(value)} is not a port; use a number from 1 to 65535, or the name of a container port.`,
  );
}

/** IANA_SVC_NAME: a letter among them; lower case letters, digits, and single hyphens inside; at most 15 characters. */
export function isPortName(value: unknown): value is string {
  if (typeof value !== "string" || value.length > 15 || !/^[a-z0-9-]+$/.test(value)) return false;
  return /[a-z]/.test(value) && !value.startsWith("-") && !value.endsWith("-") && !value.includes("--");
}
