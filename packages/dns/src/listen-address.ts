import { FleetError } from "@fairlead/base/errors.ts";
import {
  type AddressFamily,
  familyOf,
  formatAddress,
  tryParseAddress,
} from "@fairlead/base/netaddr/address.ts";

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
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<v4>[^:]+)):(?<port>\d{1,5})$/.exec(text);
  const host = match?.groups?.["v6"] ?? match?.groups?.["v4"] ?? "";
  const address = tryParseAddress(host);
  const port = Number(match?.groups?.["port"]);
  const isBracketed = text.startsWith("[");
  if (address === undefined || port > 65_535 || isBracketed !== (familyOf(address) === "IPv6")) {
    throw new FleetError(
      "OPTION_INVALID",
      `${JSON.stringify(text.slice(0, 80))} is not an address and port such as 10.0.0.1:53 or [fd00::1]:53`,
    );
  }
  return { host: formatAddress(address), port, family: familyOf(address) };
}

export function formatSocketAddress({ host, port, family }: SocketAddress): string {
  return family === "IPv6" ? `[${host}]:${port}` : `${host}:${port}`;
}
