import { FleetError } from "#base/errors.ts";
import { type AddressFamily, formatAddress, type IpAddress } from "#netaddr/address.ts";
import {
  attribute,
  NLM_F_ACK,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  parseAcknowledgements,
  parseAttributes,
  parseMessages,
  renderMessage,
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
const CTA = { original: 1, reply: 2, id: 12, zone: 18 } as const;
const CTA_TUPLE = { ip: 1, protocol: 2 } as const;
const CTA_IP = { source4: 1, destination4: 2, source6: 3, destination6: 4 } as const;
const CTA_PROTO = { number: 1, sourcePort: 2, destinationPort: 3 } as const;
const FAMILIES = { IPv4: 2, IPv6: 10 } as const;
const UDP = 17;
const ENOENT = 2;
/** nfgenmsg, which stands before the attributes. Unit: bytes. */
const NFGENMSG_BYTES = 4;

/** Where a client sent to, and who answers. */
export interface UdpFlow {
  readonly destination: string;
  readonly destinationPort: number;
  readonly answerer: string;
  readonly answererPort: number;
}

/**
 * Forgets the UDP flows that `isStale` names. Reads the table of flows once, however many there are to forget: some
 * 10 ms for 10 000 flows.
 *
 * @returns How many were forgotten.
 * @throws {FleetError} `NFT_FAILED`
 */
export function forgetUdpFlows(
  socket: NetlinkSocket,
  family: AddressFamily,
  isStale: (flow: UdpFlow) => boolean,
): number {
  const identity = { family: FAMILIES[family], sequence: 1 };
  const answers = socket.transact(
    renderMessage({
      ...identity,
      type: (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET,
      flags: NLM_F_REQUEST | NLM_F_DUMP,
      attributes: [],
    }),
  );
  for (const { errno } of answers.flatMap((it) => parseAcknowledgements(it))) check(errno, "read");
  const stale = answers
    .flatMap((it) => parseMessages(it))
    .filter((it) => it.type === ((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_NEW))
    .map((it) => parseAttributes(it.payload, NFGENMSG_BYTES))
    .filter((it) => {
      const flow = parseUdpFlow(it, family);
      return flow !== undefined && isStale(flow);
    });
  for (const flow of stale) {
    const request = renderMessage({
      ...identity,
      type: (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE,
      flags: NLM_F_REQUEST | NLM_F_ACK,
      attributes: identifying(flow),
    });
    const acknowledged = socket.transact(request).flatMap((it) => parseAcknowledgements(it));
    // One that ended by itself meanwhile is gone all the same.
    for (const { errno } of acknowledged) if (errno !== ENOENT) check(errno, "change");
  }
  return stale.length;
}

/** The attributes that name one flow and no later one with the same addresses. */
function identifying(flow: ReadonlyMap<number, Buffer>): readonly Uint8Array[] {
  return [CTA.original, CTA.id, CTA.zone].flatMap((number) => {
    const value = flow.get(number);
    if (value === undefined) return [];
    // Nested content is passed on as it came.
    return [attribute(number, number === CTA.original ? [value] : value)];
  });
}

function parseUdpFlow(flow: ReadonlyMap<number, Buffer>, family: AddressFamily): UdpFlow | undefined {
  const original = parseTuple(flow.get(CTA.original), family);
  const reply = parseTuple(flow.get(CTA.reply), family);
  if (original === undefined || reply === undefined) return undefined;
  return {
    destination: original.destination,
    destinationPort: original.destinationPort,
    answerer: reply.source,
    answererPort: reply.sourcePort,
  };
}

interface Tuple {
  readonly source: string;
  readonly destination: string;
  readonly sourcePort: number;
  readonly destinationPort: number;
}

function parseTuple(bytes: Buffer | undefined, family: AddressFamily): Tuple | undefined {
  if (bytes === undefined) return undefined;
  const parts = parseAttributes(bytes);
  const ip = parseAttributes(parts.get(CTA_TUPLE.ip) ?? EMPTY);
  const protocol = parseAttributes(parts.get(CTA_TUPLE.protocol) ?? EMPTY);
  const sourcePort = protocol.get(CTA_PROTO.sourcePort);
  const destinationPort = protocol.get(CTA_PROTO.destinationPort);
  const source = ip.get(family === "IPv4" ? CTA_IP.source4 : CTA_IP.source6);
  const destination = ip.get(family === "IPv4" ? CTA_IP.destination4 : CTA_IP.destination6);
  if (protocol.get(CTA_PROTO.number)?.[0] !== UDP) return undefined;
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
