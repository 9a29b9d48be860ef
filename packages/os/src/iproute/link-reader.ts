import { closeSync } from "node:fs";
import { defined } from "@fairlead/base/defined.ts";
import {
  callError,
  inNamespace,
  type LibC,
  loadLibC,
  MSG_DONTWAIT,
  SOCK_CLOEXEC,
  SOCK_RAW,
} from "#libc/libc.ts";
import {
  attribute,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  parseAttributes,
  parseMessages,
  readU32,
  writeU16,
  writeU32,
} from "#nft/netlink/message.ts";
import { readLinks } from "./driver.ts";
import type { Link } from "./parse.ts";

/**
 * Reads devices by rtnetlink: some 0.1 ms, where a start of `ip` takes 10 ms of processor time. What the kernel is asked in each pass
 * is read so.
 *
 * Source: rtnetlink(7); linux/if_link.h. Headers and attributes are in the machine's byte order, ports and addresses in network order.
 */
const AF_NETLINK = 16;
const NETLINK_ROUTE = 0;
const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const RTM_NEWLINK = 16;
const RTM_GETLINK = 18;
/** nlmsghdr, and ifinfomsg after it. Unit: bytes. */
const HEADER_BYTES = 16;
const INFO_BYTES = 16;
const IFF_UP = 1;
const IFLA = { address: 1, name: 3, mtu: 4, link: 5, info: 18, mask: 29, linkNetns: 37 } as const;
const IFLA_INFO_KIND = 1;
const RTEXT_FILTER_SKIP_STATS = 8;
/** One answer holds 32 KiB at most. Unit: bytes. */
const ANSWER_BYTES = 64 * 1024;
const ETHERNET_BYTES = 6;

export class LinkReader {
  readonly #netns: string | undefined;
  #libc: Promise<LibC | undefined> | undefined;

  /** @param netns - File of the network namespace; undefined: that of this process. */
  constructor(netns: string | undefined) {
    this.#netns = netns;
  }

  /**
   * All devices of the namespace, as `readLinks`, which does it where netlink cannot be had.
   *
   * @throws {FleetError} `EXEC_FAILED`
   */
  async links(signal: AbortSignal): Promise<readonly Link[]> {
    this.#libc ??= loadLibC();
    const libc = await this.#libc;
    if (libc === undefined) return await readLinks({ signal, ...defined({ netns: this.#netns }) });
    return ask(libc, this.#netns).flatMap((it) => parseLinkMessages(it));
  }

  async link(device: string, signal: AbortSignal): Promise<Link | undefined> {
    return (await this.links(signal)).find((it) => it.device === device);
  }
}

function ask(libc: LibC, netns: string | undefined): readonly Buffer[] {
  const open = (): number => libc.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  const fd = netns === undefined ? open() : inNamespace(libc, netns, open);
  if (fd < 0) throw callError(libc, "open a netlink socket");
  try {
    const question = linksRequest();
    if (libc.send(fd, question, question.length, 0) < 0) throw callError(libc, "ask for devices");
    const answers: Buffer[] = [];
    const buffer = Buffer.alloc(ANSWER_BYTES);
    for (;;) {
      // The kernel has the next part of a dump at once.
      const length = libc.recv(fd, buffer, buffer.length, MSG_DONTWAIT);
      if (length <= 0) throw callError(libc, "read the devices");
      const answer = Buffer.from(buffer.subarray(0, length));
      answers.push(answer);
      if (parseMessages(answer).some(({ type }) => type === NLMSG_DONE || type === NLMSG_ERROR))
        return answers;
    }
  } finally {
    closeSync(fd);
  }
}

function linksRequest(): Buffer {
  const mask = Buffer.alloc(4);
  writeU32(mask, RTEXT_FILTER_SKIP_STATS, 0);
  const request = Buffer.concat([Buffer.alloc(HEADER_BYTES + INFO_BYTES), attribute(IFLA.mask, mask)]);
  writeU32(request, request.length, 0);
  writeU16(request, RTM_GETLINK, 4);
  writeU16(request, NLM_F_REQUEST | NLM_F_DUMP, 6);
  writeU32(request, 1, 8);
  return request;
}

/** The devices in one answer to a dump. */
export function parseLinkMessages(bytes: Uint8Array): readonly Link[] {
  return parseMessages(bytes).flatMap(({ type, payload }) =>
    type === RTM_NEWLINK && payload.length >= INFO_BYTES ? [parseLink(payload)] : [],
  );
}

function parseLink(payload: Buffer): Link {
  const of = parseAttributes(payload, INFO_BYTES);
  const info = parseAttributes(of.get(IFLA.info) ?? Buffer.alloc(0));
  const kind = textOf(info.get(IFLA_INFO_KIND));
  const address = of.get(IFLA.address);
  // Without a namespace of its own, the other end is a device of this one.
  const peer = of.has(IFLA.linkNetns) ? of.get(IFLA.link) : undefined;
  return {
    device: textOf(of.get(IFLA.name)) ?? "",
    index: readU32(payload, 4),
    mtu: numberOf(of.get(IFLA.mtu)),
    isUp: (readU32(payload, 8) & IFF_UP) !== 0,
    ...defined({
      kind,
      peerIndex: peer && numberOf(peer),
      hardwareAddress: address?.length === ETHERNET_BYTES ? hardwareText(address) : undefined,
    }),
  };
}

function hardwareText(bytes: Buffer): string {
  return [...bytes].map((it) => it.toString(16).padStart(2, "0")).join(":");
}

function textOf(bytes: Buffer | undefined): string | undefined {
  return bytes?.toString("latin1").replace(/\0.*/s, "");
}

function numberOf(bytes: Buffer | undefined): number {
  return bytes === undefined || bytes.length < 4 ? 0 : readU32(bytes, 0);
}
