import type { Clock } from "@fairlead/base/clock.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { type LoadLibC, loadLibC } from "@fairlead/os/libc/libc.ts";
import { type AnyFlow, endRevokedFlows } from "@fairlead/os/nft/netlink/conntrack.ts";
import { type NetlinkSocket, openNetlinkSocket } from "@fairlead/os/nft/netlink/socket.ts";

export interface CutFlowsOptions {
  /** File of the network namespace to work in. Default: that of this process. */
  readonly netns?: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Loads the C library. Default: by the foreign function interface, if it is installed. */
  readonly loadLibC?: LoadLibC;
  /** Makes what says which flows are denied now. */
  readonly judge: () => (flow: AnyFlow) => boolean;
}

/** Share of the time in which conntrack is read at most: that costs milliseconds, and more where there are many flows. */
const READING_SHARE = 1 / 10;

/** Ends flows that policies have come to deny. What is due soon after a reading is read together, later. */
export class CutFlows implements Disposable {
  readonly #options: CutFlowsOptions;
  #socket: NetlinkSocket | undefined;
  #isTried = false;
  #later: Disposable | undefined;
  /** When conntrack may be read again. Unit: milliseconds. */
  #freeAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: CutFlowsOptions) {
    this.#options = options;
  }

  /** Does not fail: the table denies new flows already. */
  async cut(): Promise<void> {
    if (this.#later !== undefined) return;
    const waitMs = this.#freeAtMs - this.#options.clock.monotonic();
    if (waitMs <= 0) return this.#cutNow();
    this.#later = this.#options.clock.after(waitMs, () => {
      this.#later = undefined;
      void this.#cutNow();
    });
  }

  /** Addresses that flows lead to, after translation; none if conntrack cannot be read. */
  async answerers(): Promise<ReadonlySet<IpAddress>> {
    const found = new Set<IpAddress>();
    try {
      const socket = await this.#open();
      if (socket !== undefined)
        endRevokedFlows(socket, ({ answerer }) => {
          found.add(answerer);
          return false;
        });
    } catch (error) {
      this.#options.log.warn("the flows of this node could not be read", { error: messageOf(error) });
    }
    return found;
  }

  [Symbol.dispose](): void {
    this.#later?.[Symbol.dispose]();
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
    this.#isTried = true;
  }

  async #cutNow(): Promise<void> {
    const { clock, log, judge } = this.#options;
    try {
      const socket = await this.#open();
      if (socket === undefined) return;
      const beganMs = clock.monotonic();
      const ended = endRevokedFlows(socket, judge());
      const endedMs = clock.monotonic();
      this.#freeAtMs = endedMs + (endedMs - beganMs) * (1 / READING_SHARE - 1);
      if (ended > 0) log.info("flows that policies deny now were ended", { flows: ended });
    } catch (error) {
      log.warn("flows that policies deny now could not be ended", { error: messageOf(error) });
    }
  }

  async #open(): Promise<NetlinkSocket | undefined> {
    if (this.#isTried) return this.#socket;
    this.#isTried = true;
    const libc = await (this.#options.loadLibC ?? loadLibC)();
    try {
      if (libc !== undefined) this.#socket = openNetlinkSocket(libc, this.#options.netns);
    } catch (error) {
      if (!hasCode(error, "NFT_FAILED")) throw error;
    }
    if (this.#socket === undefined)
      this.#options.log.warn(
        "flows that policies deny last until they end: this program has no access to conntrack",
      );
    return this.#socket;
  }
}
