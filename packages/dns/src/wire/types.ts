/** DNS messages as data (RFC 1035, RFC 6891). Names are presentation text; see name.ts. */

/** Numbers of the record types that this project reads or writes. */
export const TYPE = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  OPT: 41,
  /** Signs a message (RFC 8945); never in a zone. */
  TSIG: 250,
  /** Query types only. */
  IXFR: 251,
  AXFR: 252,
  ANY: 255,
} as const;

/** NONE and ANY give prerequisites and changes of an update their meaning (RFC 2136, sections 2.4 and 2.5). */
export const CLASS = { IN: 1, NONE: 254, ANY: 255 } as const;

export const OPCODE = { QUERY: 0, UPDATE: 5 } as const;

export const RCODE = {
  NOERROR: 0,
  FORMERR: 1,
  SERVFAIL: 2,
  NXDOMAIN: 3,
  NOTIMP: 4,
  REFUSED: 5,
  /** This and those up to NOTZONE: of updates (RFC 2136, section 2.2). */
  YXDOMAIN: 6,
  YXRRSET: 7,
  NXRRSET: 8,
  NOTAUTH: 9,
  NOTZONE: 10,
  /** Extended: needs EDNS. */
  BADVERS: 16,
} as const;

export interface Question {
  readonly name: string;
  readonly type: number;
  readonly class: number;
}

interface SoaData {
  readonly type: "SOA";
  readonly mname: string;
  readonly rname: string;
  readonly serial: number;
  /** This and the three behind it. Unit: seconds. */
  readonly refresh: number;
  readonly retry: number;
  readonly expire: number;
  /** How long a negative answer may be kept (RFC 2308). */
  readonly minimum: number;
}

interface SrvData {
  readonly type: "SRV";
  readonly priority: number;
  readonly weight: number;
  readonly port: number;
  readonly target: string;
}

export type RecordData =
  | { readonly type: "A"; readonly address: number }
  | { readonly type: "AAAA"; readonly address: bigint }
  | { readonly type: "CNAME" | "NS" | "PTR"; readonly target: string }
  /** At least one text, each of at most 255 bytes, one character per byte. */
  | { readonly type: "TXT"; readonly strings: readonly string[] }
  | SrvData
  | SoaData
  /** Any other type: its RDATA as it came (RFC 3597). */
  | { readonly type: "unknown"; readonly code: number; readonly bytes: Uint8Array };

export interface ResourceRecord {
  readonly name: string;
  readonly class: number;
  /** Unit: seconds. */
  readonly ttl: number;
  readonly data: RecordData;
}

export interface EdnsOption {
  readonly code: number;
  readonly data: Uint8Array;
}

/** The OPT pseudo-record (RFC 6891). */
export interface Edns {
  /** Largest UDP payload that the sender takes. Unit: bytes. */
  readonly udpSize: number;
  readonly version: number;
  readonly dnssecOk: boolean;
  readonly options: readonly EdnsOption[];
}

export interface Header {
  readonly id: number;
  /** QR: an answer, not a question. */
  readonly response: boolean;
  readonly opcode: number;
  readonly authoritative: boolean;
  readonly truncated: boolean;
  readonly recursionDesired: boolean;
  readonly recursionAvailable: boolean;
  readonly authenticData: boolean;
  readonly checkingDisabled: boolean;
  /** With the upper bits that EDNS adds. Above 15 only with `edns`. */
  readonly rcode: number;
}

export interface Message extends Header {
  readonly questions: readonly Question[];
  readonly answers: readonly ResourceRecord[];
  readonly authorities: readonly ResourceRecord[];
  /** Without the OPT record, which is `edns`. */
  readonly additionals: readonly ResourceRecord[];
  readonly edns?: Edns;
}

/** The number of a record's type. */
export function typeCode(data: RecordData): number {
  return data.type === "unknown" ? data.code : TYPE[data.type];
}
