import { ATTRIBUTE, parseAttributes, readU16, readU32 } from "./message.ts";

/** Reports of the kernel about nftables, as they come through a pipe. Pure. */

/** NFNL_SUBSYS_NFTABLES and NFT_MSG_DELTABLE. */
const TABLE_DELETED = (10 << 8) | 2;
/** nlmsghdr, and with nfgenmsg. Unit: bytes. */
const HEADER_BYTES = 16;
const HEADERS_BYTES = 20;
/** No report is as long. Unit: bytes. */
const LONGEST = 1024 * 1024;

export class TableReports {
  #rest: Buffer = Buffer.alloc(0);

  /** @returns Names of the tables that were deleted; undefined: something else came. */
  take(chunk: Buffer): readonly string[] | undefined {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const deleted: string[] = [];
    let at = 0;
    while (bytes.length - at >= HEADER_BYTES) {
      const length = readU32(bytes, at);
      if (length < HEADER_BYTES || length > LONGEST) return undefined;
      const next = at + Math.ceil(length / 4) * 4;
      if (next > bytes.length) break;
      if (readU16(bytes, at + 4) === TABLE_DELETED && length > HEADERS_BYTES)
        deleted.push(nameOf(bytes.subarray(at, at + length)));
      at = next;
    }
    this.#rest = Buffer.from(bytes.subarray(at));
    return deleted;
  }
}

/** NFTA_TABLE_NAME has the number of NFTA_SET_ELEM_LIST_TABLE. */
function nameOf(message: Buffer): string {
  const name = parseAttributes(message, HEADERS_BYTES).get(ATTRIBUTE.list.table);
  return (name ?? Buffer.alloc(0)).toString("latin1").replace(/\0$/, "");
}
