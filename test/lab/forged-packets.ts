/** Forged datagrams, and where packets that they hold arrive. */

import { createHash } from "node:crypto";
import { once } from "node:events";
import { exec, start } from "@fairlead/base/exec.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { frameOf, MARK_WORD, packetOf } from "./raw-packets.ts";

/** What is sent to one address and UDP port. */
export interface Datagram {
  readonly to: string;
  readonly port: number;
  readonly payload: Buffer;
}

/** A UDP packet whose last bytes are the mark. */
export interface Inner {
  readonly source: string;
  readonly destination: string;
  readonly port: number;
  readonly mark: number;
}

const VXLAN_NETWORK = 7112;

function innerPacket({ source, destination, port, mark }: Inner): Buffer {
  const traffic = { kind: "transport", protocol: "UDP", port } as const;
  return packetOf({ source: parseAddress(source), destination: parseAddress(destination), traffic, mark });
}

/** What the VXLAN device of a node took before there was WireGuard between nodes (RFC 7348). */
export function vxlanPayload(node: string, inner: Inner): Buffer {
  const head = Buffer.alloc(8);
  head[0] = 0x08;
  head.writeUInt32BE(VXLAN_NETWORK << 8, 4);
  const ethernet = Buffer.alloc(14);
  ethernet[0] = 0x02;
  createHash("sha256").update(`${node} vxlan`).digest().copy(ethernet, 1, 0, 5);
  ethernet[6] = 0x02;
  ethernet.writeUInt16BE(inner.source.includes(":") ? 0x86dd : 0x0800, 12);
  return Buffer.concat([head, ethernet, innerPacket(inner)]);
}

/** The datagram as a frame for a packet socket, with any source. IPv4, without a checksum of UDP, which may be left out. */
export function datagramFrame(source: string, { to, port, payload }: Datagram, hardware: Buffer): Buffer {
  const traffic = { kind: "transport", protocol: "UDP", port } as const;
  const packet = { source: parseAddress(source), destination: parseAddress(to), traffic, mark: 0 };
  return frameOf(packet, hardware, payload);
}

/** Messages of WireGuard by type and size (its paper, section 5.4), filled with anything. */
export function wireGuardGarbage(seed: number): readonly Buffer[] {
  return [
    [1, 148],
    [2, 92],
    [3, 64],
    [4, 32],
    [4, 128],
    [9, 40],
  ].map(([type = 0, size = 0]) => {
    const bytes = Buffer.alloc(size, createHash("sha512").update(`${seed} ${type} ${size}`).digest());
    bytes.writeUInt32LE(type, 0);
    return bytes;
  });
}

/** What a test sends by itself to a server: arrives with the mark where a forged packet has it. */
export function honestPayload(mark: number): Buffer {
  const payload = Buffer.alloc(16);
  payload.writeUInt32BE(mark, 12);
  return payload;
}

const SENDER = `
const { createSocket } = require("node:dgram");
let text = "";
process.stdin.on("data", (it) => (text += it)).on("end", () => {
  const all = JSON.parse(text);
  const sockets = { 4: createSocket("udp4"), 6: createSocket("udp6") };
  const next = () => {
    const it = all.shift();
    if (it === undefined) return Object.values(sockets).forEach((socket) => socket.close());
    const socket = sockets[it.to.includes(":") ? 6 : 4];
    socket.send(Buffer.from(it.payload, "base64"), it.port, it.to, next);
  };
  Object.values(sockets).forEach((socket) => socket.on("error", () => {}));
  next();
});
`;

/** Sends by ordinary UDP sockets in a network namespace. */
export async function sendFrom(netns: string, datagrams: readonly Datagram[]): Promise<void> {
  const line = inNetns(netns, process.execPath, ["-e", SENDER]);
  const child = start(line.command, line.args, { stdio: ["pipe", "inherit", "inherit"] });
  const text = datagrams.map((it) => ({ ...it, payload: it.payload.toString("base64") }));
  child.stdin?.end(JSON.stringify(text));
  await once(child, "close");
}

const OBSERVER = `table inet marks {
  set seen { typeof ${MARK_WORD}; size 65535; flags dynamic; }
  chain first {
    type filter hook prerouting priority -450
    meta l4proto udp add @seen { ${MARK_WORD} }
  }
}
`;

async function nft(netns: string, args: readonly string[], input = ""): Promise<string> {
  const line = inNetns(netns, "nft", args);
  return (await exec(line.command, line.args, { input, timeoutMs: 10_000 })).stdout;
}

/** Begins to note the marks of UDP packets that arrive in a network namespace, before anything there can drop them. */
export async function observeMarks(netns: string): Promise<void> {
  await nft(netns, ["-f", "-"], OBSERVER);
}

export async function seenMarks(netns: string): Promise<ReadonlySet<number>> {
  const listed = JSON.parse(await nft(netns, ["--json", "list set inet marks seen"])) as {
    readonly nftables: readonly { readonly set?: { readonly elem?: readonly number[] } }[];
  };
  return new Set(listed.nftables.flatMap((it) => it.set?.elem ?? []));
}
