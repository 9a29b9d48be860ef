import { defined } from "@fairlead/base/defined.ts";
import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { NftCounter } from "@fairlead/os/nft/driver.ts";
import type { NftTable } from "@fairlead/os/nft/state.ts";
import { netnsInode } from "@fairlead/os/netns/netns.ts";
import type { LoadLibC } from "@fairlead/os/libc/libc.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { CutFlows } from "./cut-flows.ts";
import { isDenied, type Judging, ownAddresses } from "./flows.ts";
import { PolicyTable } from "./policy-table.ts";
import { SavedTable } from "./saved-table.ts";

export interface Wanted {
  /** What changed since the last call, as it was and as it is. */
  readonly before: NftTable;
  readonly after: NftTable;
  readonly whole: NftTable;
  /** By what flows are judged, apart from the addresses of the node. */
  readonly judging: Omit<Judging, "isOwn">;
  /** Whether flows that were allowed may be denied now. */
  readonly mayRevoke: boolean;
  /** Whether there are policies: the next boot begins with them. */
  readonly isSaved: boolean;
}

export interface SpaceOptions {
  /** File of the network namespace. Default: that of this process. */
  readonly netns?: string;
  /** File of the table that the next boot begins with. Default: none. */
  readonly saved?: string;
  /** Loads the C library. Default: by the foreign function interface, if it is installed. */
  readonly loadLibC?: LoadLibC;
  /** The table was deleted by another program, and is there again. */
  readonly onLost: (table: string) => void;
  readonly deps: RuntimeDeps;
}

/** One network namespace in which policies are enforced: its table and its flows. */
export class PolicySpace implements AsyncDisposable {
  readonly #netns: string | undefined;
  readonly #stack = new DisposableStack();
  readonly #table: PolicyTable;
  readonly #flows: CutFlows;
  readonly #saved: SavedTable | undefined;
  #judging: Wanted["judging"] | undefined;
  #inode: number | undefined;
  #isCutDue = false;

  constructor({ netns, saved, loadLibC, onLost, deps }: SpaceOptions) {
    this.#netns = netns;
    this.#saved = saved === undefined ? undefined : new SavedTable(saved, deps);
    this.#table = new PolicyTable(this.#stack.use(createNft(defined({ netns, loadLibC }))), onLost);
    this.#flows = this.#stack.use(
      new CutFlows({
        ...deps,
        ...defined({ netns, loadLibC }),
        judge: () => {
          const judging = this.#judging;
          // The node has no addresses in other namespaces.
          const own = netns === undefined ? ownAddresses() : new Set();
          return (flow) =>
            judging !== undefined && isDenied(flow, { ...judging, isOwn: (it: IpAddress) => own.has(it) });
        },
      }),
    );
  }

  /** The next `sync` compares everything. */
  doubt(): void {
    this.#table.doubt();
  }

  async sync({ judging, mayRevoke, isSaved, ...wanted }: Wanted, signal: AbortSignal): Promise<void> {
    const inode = this.#netns === undefined ? undefined : await netnsInode(this.#netns);
    if (inode !== this.#inode) this.#table.doubt();
    this.#inode = inode;
    // What an agent that was killed did not come to is not known.
    const isFirst = this.#judging === undefined;
    this.#judging = judging;
    // After a failure, the changes before this one are still to come.
    this.#isCutDue ||= mayRevoke;
    const isChanged = await this.#table.sync(wanted, signal);
    if (isSaved) await this.#saved?.save(isChanged || isFirst ? wanted.whole : undefined);
    else await this.#saved?.remove();
    if (!isFirst && !(isChanged && this.#isCutDue)) return;
    this.#isCutDue = false;
    await this.#flows.cut();
  }

  /** When `sync` has something to keep. Unit: milliseconds. */
  get dueInMs(): number {
    return this.#saved?.dueInMs ?? Number.POSITIVE_INFINITY;
  }

  counted(kind: "denied" | "allowed", signal: AbortSignal): Promise<ReadonlyMap<string, NftCounter>> {
    return this.#table.counted(kind, signal);
  }

  /** The table as the kernel has it. */
  read(signal: AbortSignal): Promise<NftTable | undefined> {
    return this.#table.read(signal);
  }

  /** Addresses that flows lead to. */
  answerers(): Promise<ReadonlySet<IpAddress>> {
    return this.#flows.answerers();
  }

  async remove(signal: AbortSignal): Promise<void> {
    this.#judging = undefined;
    await this.#saved?.remove();
    await this.#table.remove(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stack.dispose();
    await this.#saved?.flush();
  }
}
