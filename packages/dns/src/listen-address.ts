import { FleetError } from "@fairlead/base/errors.ts";
import {
  type AddressFamily,
  familyOf,
  formatAddress,
  tryParseAddress,
} from "@fairlead/base/netaddr/address.ts";

import { splitHostPort } from "@fairlead/base/netaddr/host-port.ts";

/** An address and port to listen on or to ask. */
export interface SocketAddress {
  readonly host: string;
  readonly port: number;
  readonly family: AddressFamily;
}

/**
 * Reads `10.0.0.1:53` or `[fd00::1]:53`.
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function parseSocketAddress(text: string): SocketAddress {
  const found = splitHostPort(text);
  const address = tryParseAddress(found?.host ?? "");
  if (found === undefined || address === undefined || found.isBracketed !== (familyOf(address) === "IPv6")) {
    throw new FleetError(
      "OPTION_INVALID",
      `${JSON.stringify(text.slice(0, 80))} is not an address and port such as 10.0.0.1:53 or [fd00::1]:53`,
    );
  }
  return { host: formatAddress(address), port: found.port, family: familyOf(address) };
}

export function formatSocketAddress({ host, port, family }: SocketAddress): string {
  return family === "IPv6" ? `[${host}]:${port}` : `${host}:${port}`;
}
