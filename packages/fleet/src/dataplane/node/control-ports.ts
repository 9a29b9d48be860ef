import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { isIP } from "node:net";
import { messageOf } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import type { NftDriver } from "@fairlead/os/nft/driver.ts";
import type { UdpEndpoint } from "../control/datagram.ts";
import { type BlockedSource, PORT_SHARE_TABLE, portShareTable } from "../control/port-share.ts";

const MAX_PORT = 65_535;

export interface ControlPortsOptions {
  readonly log: Logger;
  /** `port` is that of the tunnel at which the datagram arrived. */
  readonly onDatagram: (bytes: Uint8Array, port: number, source: UdpEndpoint) => void;
}

interface Shared {
  readonly agentPort: number;
  readonly sockets: { readonly IPv4: Socket; readonly IPv6: Socket | undefined };
}

/** Control datagrams that leave from, and arrive at, the UDP ports of tunnels: rules of nftables exchange the ports. */
export class ControlPorts implements AsyncDisposable {
  readonly #options: ControlPortsOptions;
  readonly #nft: NftDriver = createNft();
  readonly #shared = new Map<number, Shared>();
  #blocked: readonly BlockedSource[] = [];
  #isApplied = false;

  constructor(options: ControlPortsOptions) {
    this.#options = options;
  }

  /** The next `use` compares the rules with the kernel. */
  doubt(): void {
    this.#isApplied = false;
  }

  /** Shares these ports, and no others. Without ports nothing stays in the kernel. */
  async use(ports: ReadonlySet<number>, signal: AbortSignal): Promise<void> {
    for (const [port, shared] of this.#shared)
      if (!ports.has(port)) {
        closeShared(shared);
        this.#shared.delete(port);
        this.#isApplied = false;
      }
    for (const port of ports)
      if (!this.#shared.has(port)) {
        this.#shared.set(port, await this.#open(port));
        this.#isApplied = false;
      }
    await this.#apply(signal);
  }

  /** Drops the datagrams of tunnels, not control datagrams, that come from there, and no others. */
  async block(blocked: readonly BlockedSource[], signal: AbortSignal): Promise<void> {
    if (!sameJson(blocked, this.#blocked)) this.#isApplied = false;
    this.#blocked = blocked;
    await this.#apply(signal);
  }

  async #apply(signal: AbortSignal): Promise<void> {
    if (this.#isApplied) return;
    const ports = [...this.#shared].map(([wireGuard, { agentPort }]) => ({ wireGuard, agent: agentPort }));
    const wanted = ports.length === 0 ? undefined : portShareTable(ports, this.#blocked);
    const actual = await this.#nft.read(PORT_SHARE_TABLE, signal);
    await this.#nft.apply(PORT_SHARE_TABLE, diffTable(actual, wanted), signal);
    this.#isApplied = true;
  }

  /** A datagram that cannot be sent is lost, as on the way. Other members say where to: it may be anything. */
  send(port: number, to: UdpEndpoint, bytes: Uint8Array): void {
    if (isIP(to.address) === 0 || !(to.port > 0 && to.port <= MAX_PORT)) return;
    const sockets = this.#shared.get(port)?.sockets;
    const socket = to.address.includes(":") ? sockets?.IPv6 : sockets?.IPv4;
    socket?.send(bytes, to.port, to.address, (error) => {
      if (error !== null)
        this.#options.log.debug("a control datagram could not be sent", { error: messageOf(error) });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const shared of this.#shared.values()) closeShared(shared);
    this.#shared.clear();
    this.#nft[Symbol.dispose]();
    await Promise.resolve();
  }

  async #open(port: number): Promise<Shared> {
    const onMessage = (bytes: Uint8Array, { address, port: sourcePort }: RemoteInfo): void =>
      this.#options.onDatagram(bytes, port, { address, port: sourcePort });
    const ipv4 = await bound(createSocket("udp4", onMessage), 0);
    const agentPort = ipv4.address().port;
    const ipv6 = await bound(createSocket({ type: "udp6", ipv6Only: true }, onMessage), agentPort).catch(
      (error: unknown) => {
        this.#options.log.info("no control datagrams over IPv6", { error: messageOf(error) });
        return undefined;
      },
    );
    return { agentPort, sockets: { IPv4: ipv4, IPv6: ipv6 } };
  }
}

async function bound(socket: Socket, port: number): Promise<Socket> {
  const listening = once(socket, "listening");
  socket.bind(port);
  await listening;
  // An error of one datagram (ICMP) is not one of the socket.
  socket.on("error", () => {});
  return socket;
}

function closeShared({ sockets }: Shared): void {
  sockets.IPv4.close();
  sockets.IPv6?.close();
}
