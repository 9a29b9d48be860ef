import { abortable } from "@fairlead/base/abortable.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { exec } from "@fairlead/base/exec.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { familyOfText } from "@fairlead/base/netaddr/address.ts";
import { endFlows, type Flow, type FlowFilter } from "@fairlead/os/nft/netlink/conntrack.ts";
import { type LibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import { type NetlinkSocket, openNetlinkSocket } from "@fairlead/os/nft/netlink/socket.ts";
import { type Choices, flowText, type Protocol, type ServiceFlow } from "./stale-flows.ts";

/** Which flows may have to be ended. */
export interface Sweep {
  /** Flows of endpoints that went. */
  readonly gone: readonly ServiceFlow[];
  /** Flows of every Service are looked at, whatever is known to have gone. */
  readonly isWhole: boolean;
}

/** Flows that conntrack holds. */
export interface FlowTable extends Disposable {
  /**
   * Ends flows to endpoints that are not in use; their next packet starts a new flow.
   *
   * UDP has no end that conntrack could see, so a client that keeps sending would keep its flow, and its endpoint, for
   * ever. Of TCP, flows without data are ended after a delay: conntrack keeps an unanswered SYN and a closed connection for
   * two minutes, and sends a client that reuses its source port to the old endpoint, or to the pod that has its address by
   * then. Connections with data are not affected. While the kernel's table costs much to read, flows end later, together.
   *
   * @param choices - Returns what is in use; called again after a delay.
   */
  end(sweep: Sweep, choices: () => Choices, signal: AbortSignal): Promise<void>;

  /** Resolves when no flows of UDP wait for their end. */
  idle(signal: AbortSignal): Promise<void>;
}

export interface FlowTableOptions {
  /** File of the network namespace to work in. Default: that of this process. */
  readonly netns?: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Loads the C library. Default: by the foreign function interface, if it is installed. */
  readonly loadLibC?: () => Promise<LibC | undefined>;
}

/**
 * How long a TCP handshake that was under way when its endpoint went has to be completed. Unit: milliseconds.
 */
const HANDSHAKE_MS = 100;

/**
 * The kernel reads its whole table for each question, that of all namespaces: 262,144 buckets take 14 ms of processor time, and more
 * on a busy machine, in which this program does nothing else. So it reads for this share of the time at most: what is due sooner
 * is read together.
 */
const READING_SHARE = 1 / 10;

/**
 * Uses netlink, which reads the table once for any number of flows; without netlink, the `conntrack` program, which costs at
 * least one process per flow. With neither, such flows last until conntrack times them out (UDP: after 30 s of silence;
 * TCP: up to 2 min), and a warning is logged.
 */
export function createFlowTable(options: FlowTableOptions): FlowTable {
  return new ConntrackFlows(options);
}

const PROTOCOLS = ["udp", "tcp"] as const;

/** What is to be swept when the timer ends. */
interface Later {
  sweep: Sweep;
  readonly timer: Disposable;
  /** Of TCP, what went since the timer began: its handshakes have a time of their own. */
  next: Sweep | undefined;
}

function join(before: Sweep | undefined, { gone, isWhole }: Sweep): Sweep {
  return { gone: [...(before?.gone ?? []), ...gone], isWhole: isWhole || before?.isWhole === true };
}

class ConntrackFlows implements FlowTable {
  readonly #options: FlowTableOptions;
  readonly #stop = new AbortController();
  #socket: NetlinkSocket | undefined;
  #isTried = false;
  readonly #later = new Map<Protocol, Later>();
  #ended = Promise.withResolvers<void>();
  /** When the table may be read again. Unit: milliseconds. */
  #freeAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: FlowTableOptions) {
    this.#options = options;
  }

  async end(sweep: Sweep, choices: () => Choices, signal: AbortSignal): Promise<void> {
    const waitMs = this.#freeAtMs - this.#options.clock.monotonic();
    for (const protocol of PROTOCOLS) {
      const gone = sweep.gone.filter((it) => it.protocol === protocol);
      if (gone.length === 0 && !sweep.isWhole) continue;
      const delayMs = Math.max(protocol === "tcp" ? HANDSHAKE_MS : 0, waitMs);
      const own = { gone, isWhole: sweep.isWhole };
      if (delayMs > 0) this.#postpone(protocol, own, { choices, delayMs });
      else await this.#sweep(protocol, own, choices(), signal);
    }
  }

  async idle(signal: AbortSignal): Promise<void> {
    while (this.#later.has("udp")) await abortable(this.#ended.promise, signal);
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
    for (const { timer } of this.#later.values()) timer[Symbol.dispose]();
    this.#later.clear();
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
    this.#isTried = true;
  }

  #postpone(
    protocol: Protocol,
    sweep: Sweep,
    { choices, delayMs }: { readonly choices: () => Choices; readonly delayMs: number },
  ): void {
    const before = this.#later.get(protocol);
    if (before === undefined) {
      const timer = this.#options.clock.after(delayMs, () => void this.#endLater(protocol, choices));
      this.#later.set(protocol, { sweep, timer, next: undefined });
    } else if (protocol === "tcp") before.next = join(before.next, sweep);
    else before.sweep = join(before.sweep, sweep);
  }

  async #endLater(protocol: Protocol, choices: () => Choices): Promise<void> {
    const later = this.#later.get(protocol);
    this.#later.delete(protocol);
    const { signal } = this.#stop;
    try {
      if (later !== undefined) await this.#sweep(protocol, later.sweep, choices(), signal);
    } catch (error) {
      if (!signal.aborted)
        this.#options.log.warn("flows of removed endpoints could not be ended", {
          protocol,
          error: messageOf(error),
        });
    } finally {
      const waitMs = this.#freeAtMs - this.#options.clock.monotonic();
      if (later?.next !== undefined && !signal.aborted)
        this.#postpone(protocol, later.next, { choices, delayMs: Math.max(HANDSHAKE_MS, waitMs) });
      this.#ended.resolve();
      this.#ended = Promise.withResolvers();
    }
  }

  async #sweep(protocol: Protocol, sweep: Sweep, choices: Choices, signal: AbortSignal): Promise<void> {
    const gone = sweep.gone.filter((it) => it.protocol === protocol && !choices.isUsed(it));
    if (gone.length === 0 && !sweep.isWhole) return;
    const socket = await this.#open();
    if (socket === undefined) {
      await endByProgram(gone, this.#options, signal);
      return;
    }
    const stale = new Set(gone.map(flowText));
    const isStale = (found: Flow): boolean => {
      const flow = serviceFlowOf(found, protocol);
      return stale.has(flowText(flow)) || (sweep.isWhole && choices.isService(flow) && !choices.isUsed(flow));
    };
    const { clock } = this.#options;
    const beganMs = clock.monotonic();
    for (const filter of sweep.isWhole ? everything(protocol) : filtersOf(gone, protocol))
      endFlows(socket, filter, isStale);
    const endedMs = clock.monotonic();
    this.#freeAtMs = endedMs + (endedMs - beganMs) * (1 / READING_SHARE - 1);
  }

  async #open(): Promise<NetlinkSocket | undefined> {
    if (this.#isTried) return this.#socket;
    const libc = await (this.#options.loadLibC ?? loadLibC)();
    this.#isTried = true;
    try {
      if (libc !== undefined) this.#socket = openNetlinkSocket(libc, this.#options.netns);
    } catch (error) {
      if (!hasCode(error, "NFT_FAILED")) throw error;
    }
    return this.#socket;
  }
}

function serviceFlowOf(flow: Flow, protocol: Protocol): ServiceFlow {
  const endpoint = { address: flow.answerer, port: flow.answererPort };
  return { protocol, address: flow.destination, port: flow.destinationPort, endpoint };
}

function everything(protocol: Protocol): readonly FlowFilter[] {
  return [
    { family: "IPv4", protocol },
    { family: "IPv6", protocol },
  ];
}

/**
 * What the kernel is asked for: the flows of one endpoint or of one Service; of more, all flows, because each question costs a reading.
 * All of IPv6: ctnetlink_filter_match_tuple has that comparison the wrong way round, and leaves out the address that is asked for
 * (seen in Linux 6.18).
 */
function filtersOf(gone: readonly ServiceFlow[], protocol: Protocol): readonly FlowFilter[] {
  const v4 = gone.filter((it) => familyOf(it.address) === "IPv4");
  const v6: readonly FlowFilter[] = v4.length < gone.length ? [{ family: "IPv6", protocol }] : [];
  if (v4.length === 0) return v6;
  const [answerer, ...answerers] = new Set(v4.map((it) => it.endpoint.address));
  const [destination, ...destinations] = new Set(v4.map((it) => it.address));
  const narrow =
    answerers.length === 0 && answerer !== undefined
      ? { answerer }
      : destinations.length === 0 && destination !== undefined
        ? { destination }
        : {};
  return [...v6, { family: "IPv4", protocol, ...narrow }];
}

function familyOf(address: string): FlowFilter["family"] {
  return familyOfText(address) ?? "IPv4";
}

/**
 * What `conntrack` deletes, by protocol. It cannot determine which side closed a connection in CLOSE_WAIT.
 *
 * It names what it deletes by the addresses of the questions, which the next connection of the same client port has, too, and has read
 * some flows before. Of these states only TIME_WAIT is one from which clients begin again at once: as the kernel looks such a SYN up
 * again, nothing needs to be deleted for it.
 */
const DELETED: Readonly<Record<Protocol, readonly (readonly string[])[]>> = {
  udp: [[]],
  tcp: ["SYN_SENT", "SYN_RECV", "LAST_ACK", "CLOSE"].map((it) => ["--state", it]),
};

async function endByProgram(
  flows: readonly ServiceFlow[],
  options: FlowTableOptions,
  signal: AbortSignal,
): Promise<void> {
  const prefix = options.netns === undefined ? [] : ["nsenter", `--net=${options.netns}`, "--"];
  const [command, ...before] = [...prefix, "conntrack"];
  const lines = flows.flatMap((it) =>
    DELETED[it.protocol].map((state) => [...before, ...deleteArgs(it), ...state]),
  );
  for (const args of lines) {
    try {
      // Code 1 says that there was no such flow.
      await exec(command, args, { signal, allowFailure: true });
    } catch (error) {
      if (!hasCode(error, "EXEC_FAILED")) throw error;
      options.log.warn("conntrack is not installed; flows of removed endpoints end by timeout");
      return;
    }
  }
}

function deleteArgs({ protocol, address, port, endpoint }: ServiceFlow): readonly string[] {
  const family = familyOf(address) === "IPv6" ? "ipv6" : "ipv4";
  const client = ["--orig-dst", address, "--orig-port-dst", String(port)];
  const server = ["--reply-src", endpoint.address, "--reply-port-src", String(endpoint.port)];
  return ["-D", "-f", family, "-p", protocol, ...client, ...server];
}
