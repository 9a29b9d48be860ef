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
   * then. Connections with data are not affected.
   *
   * @param choices - Returns what is in use; called again after the delay for TCP.
   */
  end(sweep: Sweep, choices: () => Choices, signal: AbortSignal): Promise<void>;
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
 * How long a TCP handshake that was under way when its endpoint went has to be completed; and so often at most the table
 * of flows is read for TCP. Unit: milliseconds.
 */
const HANDSHAKE_MS = 100;

/** The kernel is asked so often for the flows of one address; for more addresses it is asked for all flows once. */
const MAX_FILTERS = 8;

/**
 * Uses netlink, which reads the table once for any number of flows; without netlink, the `conntrack` program, which costs at
 * least one process per flow. With neither, such flows last until conntrack times them out (UDP: after 30 s of silence;
 * TCP: up to 2 min), and a warning is logged.
 */
export function createFlowTable(options: FlowTableOptions): FlowTable {
  return new ConntrackFlows(options);
}

class ConntrackFlows implements FlowTable {
  readonly #options: FlowTableOptions;
  readonly #stop = new AbortController();
  #socket: NetlinkSocket | undefined;
  #isTried = false;
  /** What is to be swept of TCP. */
  #later: Sweep | undefined;
  #timer: Disposable | undefined;

  constructor(options: FlowTableOptions) {
    this.#options = options;
  }

  async end(sweep: Sweep, choices: () => Choices, signal: AbortSignal): Promise<void> {
    const { gone = [], isWhole = false } = this.#later ?? {};
    if (sweep.isWhole || sweep.gone.some((it) => it.protocol === "tcp")) {
      this.#later = { gone: [...gone, ...sweep.gone], isWhole: isWhole || sweep.isWhole };
      this.#timer ??= this.#options.clock.after(HANDSHAKE_MS, () => void this.#endTcp(choices()));
    }
    await this.#sweep("udp", sweep, choices(), signal);
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
    this.#timer?.[Symbol.dispose]();
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
    this.#isTried = true;
  }

  async #endTcp(choices: Choices): Promise<void> {
    const sweep = this.#later;
    this.#later = undefined;
    this.#timer = undefined;
    const { signal } = this.#stop;
    try {
      if (sweep !== undefined) await this.#sweep("tcp", sweep, choices, signal);
    } catch (error) {
      if (!signal.aborted)
        this.#options.log.warn("TCP flows of removed endpoints could not be ended", {
          error: messageOf(error),
        });
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
    for (const filter of sweep.isWhole ? everything(protocol) : filtersOf(gone, protocol))
      endFlows(socket, filter, isStale);
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
 * What the kernel is asked for: the flows of endpoints, or of Services, whichever are fewer; of many, all flows. All of
 * IPv6: ctnetlink_filter_match_tuple has that comparison the wrong way round, and leaves out the address that is asked for
 * (seen in Linux 6.18).
 */
function filtersOf(gone: readonly ServiceFlow[], protocol: Protocol): readonly FlowFilter[] {
  const v4 = gone.filter((it) => familyOf(it.address) === "IPv4");
  const v6: readonly FlowFilter[] = v4.length < gone.length ? [{ family: "IPv6", protocol }] : [];
  const answerers = [...new Set(v4.map((it) => it.endpoint.address))];
  const destinations = [...new Set(v4.map((it) => it.address))];
  if (Math.min(answerers.length, destinations.length) > MAX_FILTERS)
    return [{ family: "IPv4", protocol }, ...v6];
  return answerers.length <= destinations.length
    ? [...v6, ...answerers.map((answerer) => ({ family: "IPv4", protocol, answerer }) as const)]
    : [...v6, ...destinations.map((destination) => ({ family: "IPv4", protocol, destination }) as const)];
}

function familyOf(address: string): FlowFilter["family"] {
  return familyOfText(address) ?? "IPv4";
}

/** What `conntrack` deletes, by protocol. It cannot determine which side closed a connection in CLOSE_WAIT. */
const DELETED: Readonly<Record<Protocol, readonly (readonly string[])[]>> = {
  udp: [[]],
  tcp: ["SYN_SENT", "SYN_RECV", "LAST_ACK", "TIME_WAIT", "CLOSE"].map((it) => ["--state", it]),
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
