/** Sends packets whose sources are not those of the sender, and notes which of them arrive. */

import { defined } from "@fairlead/base/defined.ts";
import { exec } from "@fairlead/base/exec.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { readLinks } from "@fairlead/os/iproute/driver.ts";
import { type LibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { FRAME_OFFSET, openPacketSocket, type PacketSocket } from "@fairlead/os/packet/socket.ts";
import { found } from "../support/lab-fixture.ts";
import { frameOf, MARK_WORD } from "./raw-packets.ts";

/** Where packets that arrive are noted: by default before all else that looks at them, the checks of the receiver's kernel included. */
export interface Watched {
  readonly netns: string;
  readonly hook?: "prerouting" | "input" | "postrouting";
}

const observer = ({ hook = "prerouting" }: Watched): string => `table inet arrivals {
  set seen { typeof ${MARK_WORD}; size 65535; flags dynamic; }
  chain note {
    type filter hook ${hook} priority ${hook === "prerouting" ? -400 : 200}
    udp dport ${PORT} add @seen { ${MARK_WORD} }
  }
}
`;
/** An exported one in the worlds of tests. */
const PORT = 5353;
const FROM = Buffer.from("020000000009", "hex");
/** Marks that no other packet has at this place. */
const FIRST_MARK = 0x4c1a_0000;

/** Where a sender is, and the device at the other end of its link. */
export interface Sender {
  readonly netns: string;
  readonly device: string;
  /** Undefined: the network namespace of this process. */
  readonly towards: { readonly netns: string | undefined; readonly device: string };
}

/** One packet with its source and its destination. */
export interface Forged {
  readonly sender: Sender;
  readonly source: string;
  readonly destination: string;
  /** For messages. */
  readonly name: string;
}

export class Forger implements Disposable {
  readonly #libc: LibC;
  readonly #sockets = new Map<string, { readonly socket: PacketSocket; readonly mac: Buffer }>();
  readonly #stack = new DisposableStack();
  readonly #watched: readonly Watched[];
  #marks = FIRST_MARK;

  static async start(watched: readonly Watched[]): Promise<Forger> {
    for (const it of watched) await nft(it.netns, ["--file", "-"], observer(it));
    return new Forger(found(await loadLibC()), watched);
  }

  private constructor(libc: LibC, watched: readonly Watched[]) {
    this.#libc = libc;
    this.#watched = watched;
  }

  /** @returns The names of the packets that arrived at a receiver. The last one to each receiver is honest: those before it have passed, too. */
  async arrivals(packets: readonly Forged[]): Promise<readonly string[]> {
    const names = new Map<number, string>();
    for (const it of packets) {
      const { socket, mac } = await this.#socketOf(it.sender);
      const mark = ++this.#marks;
      names.set(mark, it.name);
      const [source, destination] = [parseAddress(it.source), parseAddress(it.destination)];
      const traffic = { kind: "transport", protocol: "UDP", port: PORT } as const;
      const frame = frameOf({ source, destination, traffic, mark }, mac);
      // A bridge takes none without it.
      FROM.copy(frame, FRAME_OFFSET + mac.length);
      socket.send(frame);
    }
    const seen = new Set<number>();
    for (const it of this.#watched) for (const mark of await seenIn(it.netns)) seen.add(mark);
    return [...names].flatMap(([mark, name]) => (seen.has(mark) ? [name] : []));
  }

  async #socketOf({ netns, device, towards }: Sender) {
    const known = this.#sockets.get(`${netns} ${device}`);
    if (known !== undefined) return known;
    const links = await readLinks({
      signal: AbortSignal.timeout(10_000),
      ...defined({ netns: towards.netns }),
    });
    const { hardwareAddress } = found(links.find((it) => it.device === towards.device));
    const mac = Buffer.from(found(hardwareAddress).replaceAll(":", ""), "hex");
    const socket = this.#stack.use(openPacketSocket(this.#libc, { netns, device }));
    const made = { socket, mac };
    this.#sockets.set(`${netns} ${device}`, made);
    return made;
  }

  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

/** The marks that arrived since the last call. */
async function seenIn(netns: string): Promise<readonly number[]> {
  const listed = JSON.parse(await nft(netns, ["--json", "list set inet arrivals seen"])) as {
    readonly nftables: readonly { readonly set?: { readonly elem?: readonly number[] } }[];
  };
  await nft(netns, ["flush set inet arrivals seen"]);
  return listed.nftables.flatMap((it) => it.set?.elem ?? []);
}

async function nft(netns: string, args: readonly string[], input = ""): Promise<string> {
  const line = inNetns(netns, "nft", args);
  return (await exec(line.command, line.args, { input, timeoutMs: 10_000 })).stdout;
}

/** Sources that no sender has, of both families. */
export const NOBODYS = {
  "the Internet": ["8.8.8.8", "2001:4860:4860::8888"],
  multicast: ["224.0.0.5", "ff02::5"],
  loopback: ["127.0.0.1", "::1"],
  broadcast: ["255.255.255.255", "ff02::1"],
  "no address": ["0.0.0.0", "::"],
  "another link": ["169.254.9.9", "fe80::9"],
} as const;
