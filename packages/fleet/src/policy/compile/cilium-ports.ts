import type { Fields } from "@fairlead/base/fields.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { FqdnPattern, PortMatch, Transport, Way } from "../model.ts";
import { fqdnOf } from "./fqdn.ts";
import { ICMP_TYPES } from "./icmp-types.ts";
import { isPresent, open, type Part, partsAt, readAll, type Refuse, shown } from "./part.ts";
import { allPorts, isPort, isPortName, isTransport, refusePort, TRANSPORTS } from "./ports.ts";

/** `toPorts` and `icmps` of Cilium's kinds. */

export interface RuleContext {
  readonly way: Way;
  readonly isDenying: boolean;
  readonly refuse: Refuse;
}

/** The ports of one entry of `toPorts`; with names, it is about DNS queries for these only. */
export interface PortsEntry {
  readonly ports: readonly PortMatch[];
  readonly dns?: readonly FqdnPattern[];
}

/** Parts of an entry that need a proxy for more than DNS. */
const UNSUPPORTED = ["serverNames", "listener", "terminatingTLS", "originatingTLS"];

export function portsEntryOf(part: Part, context: RuleContext): PortsEntry | undefined {
  const { isDenying, refuse } = context;
  const fields = open(part, isDenying ? ["ports"] : ["ports", "rules", ...UNSUPPORTED], refuse);
  if (fields === undefined) return undefined;
  const unsupported = UNSUPPORTED.find((it) => isPresent(fields[it]));
  if (unsupported !== undefined) return refuseProxy(`${part.path}.${unsupported}`, refuse);
  const parts = partsAt(fields, part.path, "ports") ?? [];
  if (parts.length === 0) return refuse(`${part.path}.ports`, "At least one port is needed.");
  const ports = readAll(parts, isDenying, (it) => portsOf(it, refuse))?.flat();
  const dns = dnsOf(fields, part.path, context);
  if (ports === undefined || dns === undefined) return undefined;
  return dns === "none" ? { ports } : { ports, dns };
}

function refuseProxy(field: string, refuse: Refuse): undefined {
  return refuse(
    field,
    "Fairlead does not look into connections. Remove the field to allow them whatever they carry.",
  );
}

function dnsOf(
  fields: Fields,
  path: string,
  { way, refuse }: RuleContext,
): "none" | readonly FqdnPattern[] | undefined {
  const rules = fields["rules"];
  if (!isPresent(rules)) return "none";
  if (!isObject(rules)) return refuse(`${path}.rules`, `${path}.rules is not an object.`);
  const isEmpty = (value: unknown): boolean =>
    !isPresent(value) || (Array.isArray(value) && value.length === 0);
  const [first, ...others] = Object.keys(rules).filter((it) => !isEmpty(rules[it]));
  if (first === undefined) return "none";
  if (first !== "dns" || others.length > 0)
    return refuseProxy(`${path}.rules.${shown(first === "dns" ? others[0] : first)}`, refuse);
  if (way === "ingress") return refuse(`${path}.rules.dns`, "Rules about DNS are possible in egress only.");
  return readAll(partsAt(rules, `${path}.rules`, "dns") ?? [], false, (it) => fqdnOf(it, refuse));
}

/** IP protocol numbers (IANA) of protocols without ports. */
const PORTLESS: ReadonlyMap<unknown, number> = new Map([
  ["IGMP", 2],
  ["VRRP", 112],
]);

function portsOf(part: Part, refuse: Refuse): readonly PortMatch[] | undefined {
  const fields = open(part, ["port", "endPort", "protocol"], refuse);
  if (fields === undefined) return undefined;
  const protocol = fields["protocol"] ?? "ANY";
  const portless = PORTLESS.get(protocol);
  if (portless !== undefined) return [{ kind: "protocol", number: portless }];
  if (protocol !== "ANY" && !isTransport(protocol))
    return refuse(`${part.path}.protocol`, `${shown(protocol)} is not TCP, UDP, SCTP, VRRP, IGMP or ANY.`);
  const range = rangeOf(fields, part.path, refuse);
  return range && (protocol === "ANY" ? TRANSPORTS : [protocol]).map(range);
}

type OfProtocol = (protocol: Transport) => PortMatch;

function rangeOf(fields: Fields, path: string, refuse: Refuse): OfProtocol | undefined {
  const { port, endPort } = fields;
  const name = typeof port === "string" ? port.toLowerCase() : port;
  if (isPortName(name)) return (protocol) => ({ kind: "named", protocol, name });
  const first = typeof name === "string" && /^\d{1,5}$/.test(name) ? Number(name) : name;
  if (first === 0) return allPorts;
  if (!isPort(first)) return refusePort(`${path}.port`, port, refuse);
  if (!isPresent(endPort) || endPort === 0)
    return (protocol) => ({ kind: "range", protocol, first, last: first });
  if (!isPort(endPort) || endPort < first)
    return refuse(`${path}.endPort`, `${shown(endPort)} is not a port from ${first} to 65535.`);
  return (protocol) => ({ kind: "range", protocol, first, last: endPort });
}

export function icmpsOf(part: Part, { isDenying, refuse }: RuleContext): readonly PortMatch[] | undefined {
  const fields = open(part, ["fields"], refuse);
  return fields && readAll(partsAt(fields, part.path, "fields") ?? [], isDenying, (it) => icmpOf(it, refuse));
}

function icmpOf(part: Part, refuse: Refuse): PortMatch | undefined {
  const fields = open(part, ["family", "type"], refuse);
  if (fields === undefined) return undefined;
  const family = fields["family"] ?? "IPv4";
  if (family !== "IPv4" && family !== "IPv6")
    return refuse(`${part.path}.family`, `${shown(family)} is neither IPv4 nor IPv6.`);
  const { type } = fields;
  const number = typeof type === "string" ? (ICMP_TYPES[family].get(type) ?? numberOf(type)) : type;
  if (typeof number === "number" && Number.isInteger(number) && number >= 0 && number <= 255)
    return { kind: "icmp", family, type: number };
  return refuse(
    `${part.path}.type`,
    `${shown(type)} is not a type of ICMP over ${family}: a number from 0 to 255, or a name such as EchoRequest.`,
  );
}

function numberOf(text: string): number | undefined {
  return /^\d{1,3}$/.test(text) ? Number(text) : undefined;
}
