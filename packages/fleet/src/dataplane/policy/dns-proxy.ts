import { randomInt } from "node:crypto";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { CounterMetric } from "@fairlead/base/metrics.ts";
import { familyOf, formatAddress, type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { overTcp, overUdp } from "@fairlead/dns/exchange.ts";
import type { Client } from "@fairlead/dns/responder.ts";
import { serveTcp } from "@fairlead/dns/tcp.ts";
import { serveUdp } from "@fairlead/dns/udp.ts";
import { type Message, RCODE } from "@fairlead/dns/wire/types.ts";
import { loadLibC } from "@fairlead/os/libc/libc.ts";
import { originalDestination } from "@fairlead/os/nft/netlink/conntrack.ts";
import { type NetlinkSocket, openNetlinkSocket } from "@fairlead/os/nft/netlink/socket.ts";
import type { Enforced } from "#policy/enforced.ts";
import type { DnsAnswer } from "#policy/fqdn-cache.ts";
import { addressesIn, failureOf, plainName, type Query, readAnswer, readQuery } from "./dns-messages.ts";
import type { DnsServer, DnsServers } from "./dns-servers.ts";
import { DNS_PORT, DNS_PROXY_PORT } from "./names.ts";

export interface DnsProxyOptions {
  /** One of each family of the node. */
  readonly addresses: readonly IpAddress[];
  readonly enforced: Enforced;
  readonly servers: DnsServers;
  /** Resolves when the kernel lets these connections pass. */
  readonly learn: (answer: DnsAnswer) => Promise<void>;
  /** Shorter TTLs count as this. Unit: seconds. */
  readonly minTtl: number;
  readonly deps: RuntimeDeps;
}

/** How long a server may take. Unit: milliseconds. */
const ANSWER_MS = 4000;
/** How long the kernel's sets may take. Unit: milliseconds. */
const LEARN_MS = 2000;
/** Queries of one pod, and of all, that may be open at the same time. */
const MAX_OF_POD = 64;
const MAX_PENDING = 2048;
/** A day. No server's TTL keeps an address for longer. Unit: seconds. */
const MAX_TTL = 86_400;

const LIMITS = { maxConnections: 512, idleMs: 10_000 };

/**
 * The DNS server that pods ask whose policies are about names, in place of those that they address. It forwards what these policies allow, as
 * it came, and answers when the kernel lets the addresses of the answer pass.
 */
export class DnsProxy implements AsyncDisposable {
  readonly #options: DnsProxyOptions;
  readonly #stack = new AsyncDisposableStack();
  readonly #queries: CounterMetric;
  readonly #pending = new Map<IpAddress, number>();
  #conntrack: NetlinkSocket | undefined;

  constructor(options: DnsProxyOptions) {
    this.#options = options;
    this.#queries = options.deps.metrics.counter({
      name: "fairlead_policy_dns_queries_total",
      help: "DNS queries of pods whose policies are about names, by what became of them.",
      labels: ["result"],
    });
  }

  /** @throws {FleetError} */
  async start(): Promise<void> {
    const { addresses, deps } = this.#options;
    const libc = await loadLibC();
    if (libc === undefined) throw new TypeError("this program has no access to conntrack");
    this.#conntrack = this.#stack.use(openNetlinkSocket(libc, undefined));
    for (const it of addresses) {
      const address = { host: formatAddress(it), port: DNS_PROXY_PORT, family: familyOf(it) };
      const respond = (bytes: Uint8Array, transport: "udp" | "tcp", client: Client) =>
        this.#respond(bytes, transport, { client, proxy: it });
      this.#stack.use(await serveUdp({ address, respond, log: deps.log, maxPending: MAX_PENDING }));
      this.#stack.use(await serveTcp({ address, respond, clock: deps.clock, ...LIMITS }));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  async #respond(bytes: Uint8Array, transport: "udp" | "tcp", ends: Ends): Promise<Buffer | undefined> {
    const pod = tryParseAddress(ends.client.address);
    const query = readQuery(bytes);
    if (pod === undefined || query === undefined) return this.#count("malformed", undefined);
    const pending = this.#pending.get(pod) ?? 0;
    if (pending >= MAX_OF_POD) return this.#count("limited", undefined);
    this.#pending.set(pod, pending + 1);
    try {
      const server = this.#serverFor(pod, query, { transport, ends });
      if (server === undefined) return this.#count("refused", failureOf(query, RCODE.REFUSED));
      return this.#count("answered", await this.#forward(bytes, query, { transport, pod, server }));
    } catch (error) {
      this.#options.deps.log.debug("a DNS query was not answered", { error: messageOf(error) });
      return this.#count("failed", failureOf(query, RCODE.SERVFAIL));
    } finally {
      const left = (this.#pending.get(pod) ?? 1) - 1;
      if (left === 0) this.#pending.delete(pod);
      else this.#pending.set(pod, left);
    }
  }

  #count<T>(result: string, value: T): T {
    this.#queries.add({ result });
    return value;
  }

  /** One that policies let the pod ask for this name. Undefined: none, or the pod has asked the proxy itself. */
  #serverFor(pod: IpAddress, { question }: Query, { transport, ends }: Asked): DnsServer | undefined {
    const { servers, enforced, deps } = this.#options;
    if (this.#conntrack === undefined) return undefined;
    const asked = originalDestination(this.#conntrack, {
      protocol: transport,
      client: pod,
      clientPort: ends.client.port,
      answerer: ends.proxy,
      answererPort: DNS_PROXY_PORT,
    });
    if (asked === undefined || asked.port !== DNS_PORT) return undefined;
    const protocol = transport === "udp" ? "UDP" : "TCP";
    const name = plainName(question.name);
    const allowed = servers.of(asked, protocol).filter(({ address, port }) => {
      const traffic = { kind: "transport", protocol, port } as const;
      const flow = {
        source: pod,
        destination: address,
        traffic,
        ...(name === undefined ? {} : { dnsName: name }),
      };
      // The node sends it on: the rules of a server on this node would let it in.
      return enforced.verdict(flow, "egress").isAllowed && enforced.verdict(flow, "ingress").isAllowed;
    });
    return allowed[Math.floor(deps.rng.random() * allowed.length)];
  }

  async #forward(bytes: Uint8Array, query: Query, { transport, pod, server }: Forwarded): Promise<Buffer> {
    const { clock } = this.#options.deps;
    const wire = Buffer.from(bytes);
    const id = randomInt(0x1_0000);
    wire.writeUInt16BE(id, 0);
    const accept = (received: Buffer): Received | undefined => {
      const message = readAnswer(received, query, id);
      return message && { message, bytes: Buffer.from(received) };
    };
    const { address, port } = server;
    const options = {
      server: { host: formatAddress(address), port, family: familyOf(address) },
      timeoutMs: ANSWER_MS,
      clock,
    };
    const answer = await (transport === "udp" ? overUdp : overTcp)(wire, accept, options);
    await this.#learn(pod, query, answer.message);
    answer.bytes.writeUInt16BE(query.message.id, 0);
    return answer.bytes;
  }

  async #learn(pod: IpAddress, query: Query, answer: Message): Promise<void> {
    const { enforced, learn, minTtl, deps } = this.#options;
    const name = plainName(query.question.name);
    const sets = enforced.fqdnSetsOf(pod);
    if (name === undefined || answer.rcode !== RCODE.NOERROR || sets.length === 0) return;
    const now = deps.clock.monotonic();
    const addresses = new Map(
      Array.from(addressesIn(query, answer), ([it, ttl]) => [
        it,
        now + Math.min(Math.max(ttl, minTtl), MAX_TTL) * 1000,
      ]),
    );
    const { promise, reject } = Promise.withResolvers<never>();
    using _late = deps.clock.after(LEARN_MS, () =>
      reject(new Error("the kernel's sets were not written in time")),
    );
    await Promise.race([learn({ pod, name, sets, addresses }), promise]);
  }
}

interface Ends {
  readonly client: Client;
  /** Of the node. */
  readonly proxy: IpAddress;
}

interface Asked {
  readonly transport: "udp" | "tcp";
  readonly ends: Ends;
}

interface Forwarded {
  readonly transport: "udp" | "tcp";
  readonly pod: IpAddress;
  readonly server: DnsServer;
}

interface Received {
  readonly message: Message;
  readonly bytes: Buffer;
}
