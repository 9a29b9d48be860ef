import { formatAddress, tryParseAddress, type IpAddress, familyOf } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, overlaps, prefixOf } from "@fairlead/base/netaddr/prefix.ts";
import type { Declaration } from "../function.ts";
import { type CelType, opaque } from "../type.ts";
import { CelError, type CelValue, Opaque } from "../value.ts";
import { addressProblem } from "./net-problems.ts";

/** IP addresses and ranges of them. Source: k8s.io/apiserver, pkg/cel/library, ip.go and cidr.go. */

const IP = opaque("net.IP");
const CIDR = opaque("net.CIDR");

export class Ip extends Opaque {
  readonly celType: CelType = IP;
  readonly address: IpAddress;
  constructor(address: IpAddress) {
    super();
    this.address = address;
  }
  /** Unit: bytes. */
  override get celSize(): number {
    return typeof this.address === "number" ? 4 : 16;
  }
  isSame(other: CelValue): boolean {
    return other instanceof Ip && other.address === this.address;
  }
}

export class Cidr extends Opaque {
  readonly celType: CelType = CIDR;
  readonly address: IpAddress;
  readonly length: number;
  #prefix: ReturnType<typeof prefixOf> | undefined;
  constructor(address: IpAddress, length: number) {
    super();
    this.address = address;
    this.length = length;
  }
  /** Unit: bytes of the prefix. */
  override get celSize(): number {
    return Math.ceil(this.length / 8);
  }
  isSame(other: CelValue): boolean {
    return other instanceof Cidr && other.address === this.address && other.length === this.length;
  }
  get prefix(): ReturnType<typeof prefixOf> {
    this.#prefix ??= prefixOf(this.address, this.length);
    return this.#prefix;
  }
}

const MAPPED = 0xff_ffn << 32n;

function isMapped(address: IpAddress): boolean {
  return typeof address === "bigint" && address >> 32n === MAPPED >> 32n;
}

function parseIp(text: string): IpAddress {
  const zone = text.includes(":") ? text.indexOf("%") : -1;
  const address = tryParseAddress(zone < 0 ? text : text.slice(0, zone));
  if (address === undefined || zone === text.length - 1) {
    const why = addressProblem(text);
    throw new CelError(
      `IP Address ${JSON.stringify(text)} parse error during conversion from string: ${why}`,
    );
  }
  if (zone >= 0) throw new CelError(`IP address ${JSON.stringify(text)} with zone value is not allowed`);
  if (isMapped(address))
    throw new CelError(`IPv4-mapped IPv6 address ${JSON.stringify(text)} is not allowed`);
  return address;
}

function parseCidr(text: string): Cidr {
  const fail = (why: string): never => {
    throw new CelError(
      `network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(${JSON.stringify(text)}): ${why}`,
    );
  };
  const slash = text.lastIndexOf("/");
  if (slash < 0) return fail("no '/'");
  const host = text.slice(0, slash);
  const bits = text.slice(slash + 1);
  const zoned = host.includes(":") && host.includes("%");
  const address = tryParseAddress(host);
  if (zoned) return fail("IPv6 zones cannot be present in a prefix");
  if (address === undefined) return fail(addressProblem(host));
  if (!/^(0|[1-9]\d*)$/.test(bits)) return fail(`bad bits after slash: ${JSON.stringify(bits)}`);
  if (Number(bits) > (typeof address === "number" ? 32 : 128)) return fail("prefix length out of range");
  if (isMapped(address)) {
    throw new CelError(
      `network address parse error during conversion from string: IPv4-mapped IPv6 address ${JSON.stringify(text)} is not allowed`,
    );
  }
  return new Cidr(address, Number(bits));
}

function succeeds(parse: (text: string) => unknown): (text: string) => boolean {
  return (text) => {
    try {
      parse(text);
      return true;
    } catch (error) {
      if (error instanceof CelError) return false;
      throw error;
    }
  };
}

function isIn(test4: (address: number) => boolean, test6: (address: bigint) => boolean) {
  return ({ address }: Ip): boolean => (typeof address === "number" ? test4(address) : test6(address));
}

const isUnspecified = isIn(
  (it) => it === 0,
  (it) => it === 0n,
);
const isLoopback = isIn(
  (it) => it >>> 24 === 127,
  (it) => it === 1n,
);
const isLinkLocalUnicast = isIn(
  (it) => it >>> 16 === 0xa9_fe,
  (it) => it >> 118n === 0xfe_80n >> 6n,
);
const isLinkLocalMulticast = isIn(
  (it) => it >>> 8 === 0xe0_00_00,
  (it) => ((it >> 112n) & 0xff_0fn) === 0xff_02n,
);
const isMulticast = isIn(
  (it) => it >>> 28 === 0xe,
  (it) => it >> 120n === 0xffn,
);

function isGlobalUnicast(ip: Ip): boolean {
  if (ip.address === 0xff_ff_ff_ff) return false;
  return !isUnspecified(ip) && !isLoopback(ip) && !isMulticast(ip) && !isLinkLocalUnicast(ip);
}

function containsIp(cidr: Cidr, { address }: Ip): boolean {
  return familyOf(address) === familyOf(cidr.address) && containsAddress(cidr.prefix, address);
}

/** For a text that is not an address there is no overload, as upstream. */
function containsIpText(cidr: Cidr, text: string): boolean {
  if (!isIp(text)) throw new CelError("no such overload");
  return containsIp(cidr, toIp(text));
}

function containsCidr(cidr: Cidr, other: Cidr): boolean {
  if (familyOf(cidr.address) !== familyOf(other.address)) return false;
  return cidr.length <= other.length && overlaps(cidr.prefix, other.prefix);
}

const isIp = succeeds(parseIp);
const toIp = (text: string): Ip => new Ip(parseIp(text));

export const NET: readonly Declaration[] = [
  [
    "ip",
    ["string_to_ip(string) -> net.IP", toIp],
    [".cidr_ip(net.CIDR) -> net.IP", ({ address }: Cidr) => new Ip(address)],
  ],
  ["family", [".ip_family(net.IP) -> int", ({ address }: Ip) => (typeof address === "number" ? 4n : 6n)]],
  [
    "ip.isCanonical",
    ["ip_is_canonical(string) -> bool", (text: string) => formatAddress(parseIp(text)) === text],
  ],
  ["isIP", ["is_ip(string) -> bool", isIp]],
  ["isUnspecified", [".ip_is_unspecified(net.IP) -> bool", isUnspecified]],
  ["isLoopback", [".ip_is_loopback(net.IP) -> bool", isLoopback]],
  ["isLinkLocalMulticast", [".ip_is_link_local_multicast(net.IP) -> bool", isLinkLocalMulticast]],
  ["isLinkLocalUnicast", [".ip_is_link_local_unicast(net.IP) -> bool", isLinkLocalUnicast]],
  ["isGlobalUnicast", [".ip_is_global_unicast(net.IP) -> bool", isGlobalUnicast]],
  ["cidr", ["string_to_cidr(string) -> net.CIDR", parseCidr]],
  ["isCIDR", ["is_cidr(string) -> bool", succeeds(parseCidr)]],
  [
    "containsIP",
    [".cidr_contains_ip_string(net.CIDR, string) -> bool", containsIpText],
    [".cidr_contains_ip_ip(net.CIDR, net.IP) -> bool", containsIp],
  ],
  [
    "containsCIDR",
    [
      ".cidr_contains_cidr_string(net.CIDR, string) -> bool",
      (cidr: Cidr, text: string) => containsCidr(cidr, parseCidr(text)),
    ],
    [".cidr_contains_cidr(net.CIDR, net.CIDR) -> bool", containsCidr],
  ],
  ["prefixLength", [".cidr_prefix_length(net.CIDR) -> int", ({ length }: Cidr) => BigInt(length)]],
  [
    "masked",
    [".cidr_masked(net.CIDR) -> net.CIDR", ({ prefix, length }: Cidr) => new Cidr(prefix.network, length)],
  ],
  [
    "string",
    ["ip_to_string(net.IP) -> string", ({ address }: Ip) => formatAddress(address)],
    [
      "cidr_to_string(net.CIDR) -> string",
      ({ address, length }: Cidr) => `${formatAddress(address)}/${length}`,
    ],
  ],
];
