/** A node of its own for a table of policies: takes raw packets, and notes those that get through. */

import { closeSync } from "node:fs";
import { exec } from "@fairlead/base/exec.ts";
import { formatAddress, type IpAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { inNamespace, type LibC, SOCK_CLOEXEC, SOCK_RAW } from "@fairlead/os/libc/libc.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { openPacketSocket, type PacketSocket } from "@fairlead/os/packet/socket.ts";
import type { NetnsFixture } from "../support/netns-fixture.ts";
import { ip } from "./proxy-world.ts";
import { frameOf, MARK_WORD, packetOf, type RawPacket } from "./raw-packets.ts";

const MAC = "02:00:00:00:00:01";

/** Behind the table of policies (priority -10). Packets end here: none leaves a flow in conntrack, and none is answered. */
const OBSERVER = `table inet probes {
  set seen { typeof ${MARK_WORD}; size 65535; flags dynamic; }
  chain note {
    add @seen { ${MARK_WORD} }
    drop
  }
${["forward", "input", "output"]
  .map((hook) => `  chain ${hook} {\n    type filter hook ${hook} priority 100\n    jump note\n  }`)
  .join("\n")}
}
`;

export class PolicyRouter implements Disposable {
  readonly nft: NftDriver;
  readonly #netns: string;
  readonly #libc: LibC;
  readonly #own: readonly IpAddress[];
  readonly #stack = new DisposableStack();
  readonly #outside: PacketSocket;
  /** Raw sockets of the node, by family. */
  readonly #inside: { readonly v4: number; readonly v6: number };

  static async make(
    libc: LibC,
    fixture: NetnsFixture,
    { name, own }: { readonly name: string; readonly own: readonly IpAddress[] },
  ): Promise<PolicyRouter> {
    const [netns, outside] = [await fixture.netns(name), await fixture.netns(`${name}-outside`)];
    const signal = AbortSignal.timeout(30_000);
    await ip(netns, [
      `link add left address ${MAC} type veth peer name left netns ${outside}`,
      `link add right type veth peer name right netns ${outside}`,
    ]);
    await writeSysctls(outside, STATIC_IPV6_SYSCTLS, signal);
    await writeSysctls(netns, { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS }, signal);
    await writeSysctls(
      netns,
      {
        "net/ipv4/conf/all/rp_filter": 0,
        "net/ipv4/conf/left/rp_filter": 0,
        "net/netfilter/nf_conntrack_checksum": 0,
      },
      signal,
    );
    for (const it of [netns, outside])
      await ip(it, ["link set lo up", "link set left up", "link set right up"]);
    await ip(netns, [
      ...own.map((it) => `addr add ${formatAddress(it)}/${typeof it === "number" ? 32 : 128} dev lo`),
      "addr add 192.0.2.1/30 dev right",
      "addr add 2001:db8:ffff::1/64 dev right nodad",
      `route add default via 192.0.2.2 table ${FORWARDED}`,
      `route add default via 2001:db8:ffff::2 table ${FORWARDED}`,
      // All sources are those of the device that packets come by.
      "route add default dev left",
      "route add ::/0 dev left",
      "neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev right",
      "neigh replace 2001:db8:ffff::2 lladdr 02:00:00:00:00:02 dev right",
    ]);
    for (const family of ["-4", "-6"]) {
      const line = inNetns(netns, "ip", [family, "rule", "add", "iif", "left", "table", `${FORWARDED}`]);
      await exec(line.command, line.args, { timeoutMs: 10_000 });
    }
    await run(netns, ["--file", "-"], OBSERVER);
    return new PolicyRouter(libc, own, { netns, outside });
  }

  private constructor(
    libc: LibC,
    own: readonly IpAddress[],
    { netns, outside }: { readonly netns: string; readonly outside: string },
  ) {
    this.#libc = libc;
    this.#own = own;
    this.#netns = netns;
    this.nft = this.#stack.use(createNft({ netns }));
    this.#outside = this.#stack.use(openPacketSocket(libc, { netns: outside, device: "left" }));
    const raw = (domain: number): number =>
      this.#stack.adopt(
        inNamespace(libc, netns, () => libc.socket(domain, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)),
        closeSync,
      );
    this.#inside = { v4: raw(AF_INET), v6: raw(AF_INET6) };
  }

  /** Sends packets from outside, or, where the source is an address of the node, by the node itself. */
  send(packets: readonly RawPacket[]): void {
    const mac = Buffer.from(MAC.replaceAll(":", ""), "hex");
    for (const it of packets)
      if (this.#own.includes(it.source)) this.#sendOwn(it);
      else this.#outside.send(frameOf(it, mac));
  }

  #sendOwn(packet: RawPacket): void {
    const { destination } = packet;
    const to = Buffer.alloc(28);
    to.writeUInt16LE(typeof destination === "number" ? AF_INET : AF_INET6, 0);
    if (typeof destination === "number") to.writeUInt32BE(destination, 4);
    else to.write(destination.toString(16).padStart(32, "0"), 8, "hex");
    const fd = typeof destination === "number" ? this.#inside.v4 : this.#inside.v6;
    const bytes = packetOf(packet);
    this.#libc.connect(fd, to, to.length);
    // What the table drops is an error here.
    this.#libc.send(fd, bytes, bytes.length, 0);
  }

  /** The marks of packets that got through since the last call. */
  async seen(): Promise<ReadonlySet<number>> {
    const listed = JSON.parse(await run(this.#netns, ["--json", "list set inet probes seen"])) as {
      readonly nftables: readonly { readonly set?: { readonly elem?: readonly number[] } }[];
    };
    await run(this.#netns, ["flush set inet probes seen"]);
    return new Set(listed.nftables.flatMap((it) => it.set?.elem ?? []));
  }

  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }
}

/** Routing table of what comes from outside. */
const FORWARDED = 100;
const AF_INET = 2;
const AF_INET6 = 10;
/** The packet has its header already. */
const IPPROTO_RAW = 255;

async function run(netns: string, args: readonly string[], input = ""): Promise<string> {
  const line = inNetns(netns, "nft", args);
  return (await exec(line.command, line.args, { input, timeoutMs: 10_000 })).stdout;
}

export const OWN_NODE = ["192.168.0.1", "fd01::1"].map(parseAddress);
