import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { NftElementOp, NftOp } from "../diff.ts";
import type { NftDriver } from "../driver.ts";
import { createExecNft } from "../exec.ts";
import type { NftTableName } from "../state.ts";
import { elementMessages } from "./elements.ts";
import { parseAcknowledgements, renderBatch } from "./message.ts";
import { type LoadLibC, loadLibC } from "#libc/libc.ts";
import { netnsInode } from "#netns/netns.ts";
import { type NetlinkSocket, openNetlinkSocket } from "./socket.ts";

export interface NftOptions {
  /** File of the network namespace to work in. Default: that of this process. */
  readonly netns?: string;
  /** Loads the C library. Default: by the foreign function interface, if it is installed. */
  readonly loadLibC?: LoadLibC;
}

const ENOENT = 2;
const EEXIST = 17;

/**
 * The driver to use: changes of elements go by netlink, some 0.1 ms for a few; structure, sets of prefixes and reading go
 * by the `nft` program, and so does everything where netlink cannot be had.
 */
export function createNft(options: NftOptions = {}): NftDriver {
  const prefix = options.netns === undefined ? [] : ["nsenter", `--net=${options.netns}`, "--"];
  return new TwoWayNft(createExecNft({ prefix }), options);
}

class TwoWayNft implements NftDriver {
  readonly #exec: NftDriver;
  readonly #options: NftOptions;
  #socket: NetlinkSocket | undefined;
  /** undefined: not tried yet. */
  #hasNetlink: boolean | undefined;
  /** Of the namespace that the socket is in: the file may be of another one later. */
  #inode: number | undefined;
  #sequence = 1;

  constructor(execNft: NftDriver, options: NftOptions) {
    this.#exec = execNft;
    this.#options = options;
  }

  read(table: NftTableName, signal: AbortSignal): ReturnType<NftDriver["read"]> {
    return this.#exec.read(table, signal);
  }

  readMap(table: NftTableName, set: string, signal: AbortSignal): ReturnType<NftDriver["readMap"]> {
    return this.#exec.readMap(table, set, signal);
  }

  readCounters(table: NftTableName, set: string, signal: AbortSignal): ReturnType<NftDriver["readCounters"]> {
    return this.#exec.readCounters(table, set, signal);
  }

  async apply(table: NftTableName, ops: readonly NftOp[], signal: AbortSignal): Promise<void> {
    if (ops.length === 0) return;
    const socket = ops.every((op) => isQuick(op)) ? await this.#open() : undefined;
    if (socket === undefined) await this.#exec.apply(table, ops, signal);
    else
      this.#send(
        socket,
        table,
        ops.filter((op) => isQuick(op)),
      );
  }

  [Symbol.dispose](): void {
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
    this.#exec[Symbol.dispose]();
  }

  async #open(): Promise<NetlinkSocket | undefined> {
    const { netns } = this.#options;
    const inode = netns === undefined ? undefined : await netnsInode(netns);
    if (this.#hasNetlink !== undefined && inode === this.#inode) return this.#socket;
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
    this.#inode = inode;
    const libc = await (this.#options.loadLibC ?? loadLibC)();
    try {
      if (libc !== undefined) this.#socket = openNetlinkSocket(libc, netns);
    } catch (error) {
      if (!hasCode(error, "NFT_FAILED")) throw error;
    }
    this.#hasNetlink = this.#socket !== undefined;
    return this.#socket;
  }

  #send(socket: NetlinkSocket, table: NftTableName, ops: readonly NftElementOp[]): void {
    const messages = ops.flatMap((op) => elementMessages(table, op));
    if (messages.length === 0) return;
    const first = this.#sequence;
    this.#sequence = (first + messages.length + 2) % 0x7fff_ffff;
    const answers = socket.transact(renderBatch(messages, first)).flatMap((it) => parseAcknowledgements(it));
    const refused = answers.find((it) => it.errno !== 0);
    if (refused !== undefined) throw refusal(table, refused.errno);
    // Without the last message's acknowledgement nothing says that the batch was carried out.
    if (!answers.some((it) => it.sequence === first + messages.length)) throw refusal(table, undefined);
  }
}

function isQuick(op: NftOp): op is NftElementOp {
  return (op.verb === "add-elements" || op.verb === "delete-elements") && op.spec.interval !== true;
}

function refusal(table: NftTableName, errno: number | undefined): FleetError {
  const code = errno === ENOENT ? "NFT_NOT_FOUND" : errno === EEXIST ? "NFT_EXISTS" : "NFT_FAILED";
  const what = errno === undefined ? "the kernel did not answer" : `errno ${errno}`;
  return new FleetError(code, `cannot change nftables table ${table.family} ${table.name}: ${what}`, {
    retriable: code !== "NFT_FAILED" || errno === undefined,
    detail: { errno },
  });
}
