import { FleetError } from "@fairlead/base/errors.ts";
import { canonicalAddress, familyOfText } from "@fairlead/base/netaddr/address.ts";
import { formatPrefix, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";

/** Words of the `ip` grammar, each checked to be one: what comes from outside can be nothing else. */

/** IFNAMSIZ of linux/if.h is 16 with the closing NUL. */
const DEVICE = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/;
const HARDWARE_ADDRESS = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/;
/** `ip -batch` splits at white space, takes quotes and backslashes for itself, and # for a comment. */
const PATH = /^\/[^\s"'\\#\0]{1,4000}$/;

/** Whether `deviceWord` takes it: names of devices may hold more characters. */
export function isDeviceWord(name: string): boolean {
  return DEVICE.test(name);
}

export function deviceWord(name: string): string {
  return checked(isDeviceWord(name), name, "the name of a device");
}

export function hardwareWord(address: string): string {
  return checked(HARDWARE_ADDRESS.test(address), address, "a hardware address such as 02:00:00:00:00:01");
}

/** A namespace by its file. The slash tells `ip` that it is a path and not a name in /run/netns. */
export function netnsWord(path: string): string {
  return checked(PATH.test(path), path, "an absolute path without spaces, quotes, backslashes and #");
}

export function numberWord(value: number, [min, max]: readonly [number, number]): string {
  const isInside = Number.isInteger(value) && value >= min && value <= max;
  return checked(isInside, String(value), `a whole number from ${min} to ${max}`);
}

/** An address in canonical text. @throws {FleetError} `ADDRESS_INVALID` */
export function addressWord(address: string): string {
  return canonicalAddress(address);
}

/** An address with the length of its network, as a device has it: bits behind the length may be set. */
export function interfaceAddressWord(text: string): string {
  const slash = text.indexOf("/");
  const address = canonicalAddress(slash < 0 ? text : text.slice(0, slash));
  const bits = familyOfText(address) === "IPv4" ? 32 : 128;
  const length = slash < 0 ? bits : Number(text.slice(slash + 1));
  return `${address}/${numberWord(length, [0, bits])}`;
}

/** A destination: a prefix, or an address for the prefix that holds it alone. */
export function prefixWord(text: string): string {
  return text.includes("/") ? formatPrefix(parsePrefix(text)) : interfaceAddressWord(text);
}

/** Unit: bytes. */
export function mtuWord(mtu: number): string {
  return numberWord(mtu, [68, 65_535]);
}

/** A routing table by its number. */
export function tableWord(table: number): string {
  return numberWord(table, [1, 0xffff_ffff]);
}

function checked(isGood: boolean, text: string, what: string): string {
  if (isGood) return text;
  throw new FleetError("OPTION_INVALID", `${JSON.stringify(text.slice(0, 200))} is not ${what}`);
}
