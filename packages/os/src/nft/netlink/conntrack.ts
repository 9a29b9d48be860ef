import { FleetError } from "@fairlead/base/errors.ts";
import {
  type AddressFamily,
  familyOf,
  formatAddress,
  type IpAddress,
  parseAddress,
} from "@fairlead/base/netaddr/address.ts";
import {
  attribute,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  parseAcknowledgements,
  parseAttributes,
  parseMessages,
  renderMessage,
  writeU32,
} from "./message.ts";
import type { NetlinkSocket } from "./socket.ts";

/**
 * Flows that conntrack holds, by netlink.
 *
 * Source: linux/netfilter/nfnetlink_conntrack.h.
 */
const NFNL_SUBSYS_CTNETLINK = 1;
const IPCTNL_MSG_CT_NEW = 0;
const IPCTNL_MSG_CT_GET = 1;
const IPCTNL_MSG_CT_DELETE = 2;
const CTA = { original: 1, reply: 2, protocolInfo: 4, id: 12, zone: 18, filter: 25 } as const;
const CTA_TUPLE = { ip: 1, protocol: 2 } as const;
const CTA_IP = { source4: 1, destination4: 2, source6: 3, destination6: 4 } as const;
const CTA_PROTO = { number: 1, sourcePort: 2, destinationPort: 3, icmpType: 5, icmpv6Type: 8 } as const;
const CTA_PROTOINFO_TCP = 1;
const CTA_PROTOINFO = { state: 1, flagsOfReply: 5 } as const;
/** By direction, the fields of a tuple that a dump is filtered by (CTA_FILTER_F_*, Linux 5.8). */
const CTA_FILTER = { original: 1, reply: 2 } as const;
const COMPARE = { source: 1, destination: 2, protocol: 8 } as const;
const FAMILIES = { IPv4: 2, IPv6: 10 } as const;
/** All families. */
const AF_UNSPEC = 0;
const PROTOCOLS = { tcp: 6, udp: 17 } as const;
const ENOENT = 2;
/** nfgenmsg, which precedes the attributes. Unit: bytes. */
const NFGENMSG_BYTES = 4;

/** `enum tcp_conntrack` of linux/netfilter/nf_conntrack_tcp.h. */
const TCP_STATE = {
  synSent: 1,
  synReceived: 2,
  closeWait: 5,
  lastAck: 6,
  timeWait: 7,
  close: 8,
  synSent2: 9,
};
const SILENT_STATES: ReadonlySet<number | undefined> = new Set([
  TCP_STATE.synSent,
  TCP_STATE.synReceived,
  TCP_STATE.lastAck,
  TCP_STATE.timeWait,
  TCP_STATE.close,
  TCP_STATE.synSent2,
]);
/** This side was the first to close (IP_CT_TCP_FLAG_CLOSE_INIT). */
const CLOSED_FIRST = 4;

/** The destination of a client, and the endpoint that answers. */
export interface Flow {
  readonly destination: string;
  readonly destinationPort: number;
  readonly answerer: string;
  readonly answererPort: number;
}

/** Flows that the kernel is asked for. */
export interface FlowFilter {
  readonly family: AddressFamily;
  readonly protocol: keyof typeof PROTOCOLS;
  /** Only those that were sent to this IPv4 address. */
  readonly destination?: string;
  /** Only those that this IPv4 address answers. */
  readonly answerer?: string;
}

/** So many flows are ended by one datagram. */
const ENDED_AT_ONCE = 1000;

/**
 * Ends the flows that `isStale` names: all of UDP, and those of TCP that carry no data. A connection that its client
 * closed first may be waiting for the rest of an answer, and stays.
 *
 * Reads flows once, however many there are to end: some 10 ms for 10 000. An older kernel gives all flows whatever it is
 * asked for.
 *
 * @returns How many were ended.
 * @throws {FleetError} `NFT_FAILED`
 */
export function endFlows(
  socket: NetlinkSocket,
  filter: FlowFilter,
  isStale: (flow: Flow) => boolean,
): number {
  const stale = readFlows(socket, FAMILIES[filter.family], narrowing(filter)).filter(({ attributes }) => {
    const flow = parseFlow(attributes, filter);
    return flow !== undefined && isStale(flow);
  });
  deleteFlows(socket, stale);
  return stale.length;
}

/** A flow of any protocol: the client, and the endpoint that answers after the translation of addresses. */
export interface AnyFlow {
  readonly protocol: number;
  readonly source: IpAddress;
  readonly answerer: IpAddress;
  /** Of the answerer; undefined for protocols without ports. */
  readonly port: number | undefined;
  readonly icmpType: number | undefined;
}

/**
 * Ends the flows of all protocols that `isRevoked` names, in whatever state they are.
 *
 * @returns How many were ended.
 * @throws {FleetError} `NFT_FAILED`
 */
export function endRevokedFlows(socket: NetlinkSocket, isRevoked: (flow: AnyFlow) => boolean): number {
  const revoked = readFlows(socket, AF_UNSPEC, []).filter(({ attributes }) => {
    const flow = parseAnyFlow(attributes);
    return flow !== undefined && isRevoked(flow);
  });
  deleteFlows(socket, revoked);
  return revoked.length;
}

/** A flow as the endpoint sees it that answers: of which addresses and ports its packets are. */
export interface AnsweredFlow {
  readonly protocol: keyof typeof PROTOCOLS;
  readonly client: IpAddress;
  readonly clientPort: number;
  readonly answerer: IpAddress;
  readonly answererPort: number;
}

/**
 * The address that the client of a flow sent to, before its translation. Costs the same however many flows there are.
 *
 * @returns undefined if conntrack does not know the flow.
 * @throws {FleetError} `NFT_FAILED`
 */
export function originalDestination(
  socket: NetlinkSocket,
  { protocol, client, clientPort, answerer, answererPort }: AnsweredFlow,
): { readonly address: IpAddress; readonly port: number } | undefined {
  const family = familyOf(client);
  const [source, destination] =
    family === "IPv4" ? [CTA_IP.source4, CTA_IP.destination4] : [CTA_IP.source6, CTA_IP.destination6];
  const reply = [
    attribute(CTA_TUPLE.ip, [
      attribute(source, addressBytes(answerer)),
      attribute(destination, addressBytes(client)),
    ]),
    attribute(CTA_TUPLE.protocol, [
      attribute(CTA_PROTO.number, Buffer.of(PROTOCOLS[protocol])),
      attribute(CTA_PROTO.sourcePort, portBytes(answererPort)),
      attribute(CTA_PROTO.destinationPort, portBytes(clientPort)),
    ]),
  ];
  const answers = socket.transact(
    renderMessage({
      family: FAMILIES[family],
      sequence: 1,
      type: (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET,
      flags: NLM_F_REQUEST,
      attributes: [attribute(CTA.reply, reply)],
    }),
  );
  for (const { errno } of answers.flatMap((it) => parseAcknowledgements(it)))
    if (errno !== ENOENT) check(errno, "read");
  for (const { attributes } of flowsIn(answers)) {
    const original = parseTuple(attributes.get(CTA.original), { family, protocol });
    if (original !== undefined)
      return { address: parseAddress(original.destination), port: original.destinationPort };
  }
  return undefined;
}

function addressBytes(address: IpAddress): Buffer {
  const bytes = Buffer.alloc(typeof address === "number" ? 4 : 16);
  if (typeof address === "number") bytes.writeUInt32BE(address);
  else {
    bytes.writeBigUInt64BE(address >> 64n);
    bytes.writeBigUInt64BE(address & 0xffff_ffff_ffff_ffffn, 8);
  }
  return bytes;
}

function portBytes(port: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(port);
  return bytes;
}

interface FoundFlow {
  readonly family: number;
  readonly attributes: ReadonlyMap<number, Buffer>;
}

function readFlows(
  socket: NetlinkSocket,
  family: number,
  attributes: readonly Uint8Array[],
): readonly FoundFlow[] {
  const answers = socket.transact(
    renderMessage({
      family,
      sequence: 1,
      type: (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET,
      flags: NLM_F_REQUEST | NLM_F_DUMP,
      attributes,
    }),
  );
  for (const { errno } of answers.flatMap((it) => parseAcknowledgements(it))) check(errno, "read");
  return flowsIn(answers);
}

function flowsIn(answers: readonly Uint8Array[]): readonly FoundFlow[] {
  return answers
    .flatMap((it) => parseMessages(it))
    .filter((it) => it.type === ((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_NEW))
    .map(({ payload }) => ({
      family: payload[0] ?? AF_UNSPEC,
      attributes: parseAttributes(payload, NFGENMSG_BYTES),
    }));
}

function deleteFlows(socket: NetlinkSocket, flows: readonly FoundFlow[]): void {
  for (let at = 0; at < flows.length; at += ENDED_AT_ONCE) {
    const requests = flows.slice(at, at + ENDED_AT_ONCE).map(({ family, attributes }) =>
      renderMessage({
        family,
        sequence: 1,
        type: (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE,
        // Errors are answered without being asked for.
        flags: NLM_F_REQUEST,
        attributes: identifying(attributes),
      }),
    );
    const failures = socket.transact(Buffer.concat(requests)).flatMap((it) => parseAcknowledgements(it));
    // A flow that has ended since needs no deletion.
    for (const { errno } of failures) if (errno !== ENOENT) check(errno, "change");
  }
}

function parseAnyFlow(flow: ReadonlyMap<number, Buffer>): AnyFlow | undefined {
  const original = parseEnds(flow.get(CTA.original));
  const reply = parseEnds(flow.get(CTA.reply));
  if (original === undefined || reply === undefined) return undefined;
  const { protocol = EMPTY } = original;
  const icmpType = original.icmpType ?? original.icmpv6Type;
  return {
    protocol: protocol[0] ?? 0,
    source: original.source,
    answerer: reply.source,
    port: reply.sourcePort?.readUInt16BE(0),
    icmpType: icmpType?.[0],
  };
}

function parseEnds(bytes: Buffer | undefined) {
  const parts = parseAttributes(bytes ?? EMPTY);
  const ip = parseAttributes(parts.get(CTA_TUPLE.ip) ?? EMPTY);
  const protocol = parseAttributes(parts.get(CTA_TUPLE.protocol) ?? EMPTY);
  const source = ip.get(CTA_IP.source4) ?? ip.get(CTA_IP.source6);
  if (source === undefined) return undefined;
  return {
    source: readAddress(source),
    protocol: protocol.get(CTA_PROTO.number),
    sourcePort: protocol.get(CTA_PROTO.sourcePort),
    icmpType: protocol.get(CTA_PROTO.icmpType),
    icmpv6Type: protocol.get(CTA_PROTO.icmpv6Type),
  };
}

/** Attributes that make the kernel leave out other flows than those of `filter`. */
function narrowing({ protocol, destination, answerer }: FlowFilter): readonly Uint8Array[] {
  const byAnswerer = answerer !== undefined;
  const address = answerer ?? destination;
  const parts = [
    attribute(CTA_TUPLE.protocol, [attribute(CTA_PROTO.number, Buffer.of(PROTOCOLS[protocol]))]),
  ];
  let compared: number = COMPARE.protocol;
  if (address !== undefined) {
    const end = byAnswerer ? "source" : "destination";
    const bytes = Buffer.from(address.split(".").map(Number));
    parts.unshift(attribute(CTA_TUPLE.ip, [attribute(CTA_IP[`${end}4`], bytes)]));
    compared |= COMPARE[end];
  }
  const direction = byAnswerer ? "reply" : "original";
  const flags = Buffer.alloc(4);
  writeU32(flags, compared, 0);
  return [attribute(CTA[direction], parts), attribute(CTA.filter, [attribute(CTA_FILTER[direction], flags)])];
}

/**
 * The attributes that name one flow and no later one: by the addresses of its answers. A client that uses its port again has a flow
 * with the same addresses of questions, to another endpoint, and mostly the same id: the kernel makes it of the place in memory, which is free
 * when a new connection takes the place of one in TIME_WAIT.
 */
function identifying(flow: ReadonlyMap<number, Buffer>): readonly Uint8Array[] {
  return [CTA.reply, CTA.id, CTA.zone].flatMap((number) => {
    const value = flow.get(number);
    if (value === undefined) return [];
    // Nested content is passed on as it came.
    return [attribute(number, number === CTA.reply ? [value] : value)];
  });
}

/** A flow of that family and protocol which may be ended. */
function parseFlow(flow: ReadonlyMap<number, Buffer>, filter: FlowFilter): Flow | undefined {
  if (filter.protocol === "tcp" && !isSilent(flow.get(CTA.protocolInfo))) return undefined;
  const original = parseTuple(flow.get(CTA.original), filter);
  const reply = parseTuple(flow.get(CTA.reply), filter);
  if (original === undefined || reply === undefined) return undefined;
  return {
    destination: original.destination,
    destinationPort: original.destinationPort,
    answerer: reply.source,
    answererPort: reply.sourcePort,
  };
}

/** Whether a TCP connection carries no data: it is not yet open, or its endpoint has closed it. */
function isSilent(info: Buffer | undefined): boolean {
  const tcp = parseAttributes(parseAttributes(info ?? EMPTY).get(CTA_PROTOINFO_TCP) ?? EMPTY);
  const state = tcp.get(CTA_PROTOINFO.state)?.[0];
  if (state !== TCP_STATE.closeWait) return SILENT_STATES.has(state);
  return ((tcp.get(CTA_PROTOINFO.flagsOfReply)?.[0] ?? 0) & CLOSED_FIRST) !== 0;
}

interface Tuple {
  readonly source: string;
  readonly destination: string;
  readonly sourcePort: number;
  readonly destinationPort: number;
}

function parseTuple(bytes: Buffer | undefined, { family, protocol: wanted }: FlowFilter): Tuple | undefined {
  if (bytes === undefined) return undefined;
  const parts = parseAttributes(bytes);
  const ip = parseAttributes(parts.get(CTA_TUPLE.ip) ?? EMPTY);
  const protocol = parseAttributes(parts.get(CTA_TUPLE.protocol) ?? EMPTY);
  const sourcePort = protocol.get(CTA_PROTO.sourcePort);
  const destinationPort = protocol.get(CTA_PROTO.destinationPort);
  const source = ip.get(family === "IPv4" ? CTA_IP.source4 : CTA_IP.source6);
  const destination = ip.get(family === "IPv4" ? CTA_IP.destination4 : CTA_IP.destination6);
  if (protocol.get(CTA_PROTO.number)?.[0] !== PROTOCOLS[wanted]) return undefined;
  if (sourcePort === undefined || destinationPort === undefined) return undefined;
  if (source === undefined || destination === undefined) return undefined;
  return {
    source: formatAddress(readAddress(source)),
    destination: formatAddress(readAddress(destination)),
    sourcePort: sourcePort.readUInt16BE(0),
    destinationPort: destinationPort.readUInt16BE(0),
  };
}

const EMPTY = Buffer.alloc(0);

function readAddress(bytes: Buffer): IpAddress {
  if (bytes.length === 4) return bytes.readUInt32BE(0);
  return (bytes.readBigUInt64BE(0) << 64n) | bytes.readBigUInt64BE(8);
}

function check(errno: number, verb: "read" | "change"): void {
  if (errno === 0) return;
  throw new FleetError("NFT_FAILED", `cannot ${verb} conntrack's flows: errno ${errno}`, {
    retriable: true,
    detail: { errno },
  });
}
