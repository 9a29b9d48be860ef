import { isIP } from "node:net";

/**
 * What may differ between two servers, replaced by what must not: the n-th uid by `<uid n>`, an allocated address by `<ip n>`.
 * What the scenario itself sent stays as it is.
 */

const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;
const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g;
const JWT = /\beyJ[\w-]+\.[\w-]+\.[\w-]+/g;
const ADDRESS = /\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])/g;
/** Volumes of a pod that carry its ServiceAccount's token. */
const TOKEN_VOLUME = /\bkube-api-access-[a-z0-9]{5}\b/g;
const NODE_PORT = /\b3[0-2]\d{3}\b/g;
/** A whole object in a message. */
const OBJECT = /Invalid value: "\{(?:[^"\\]|\\.)*\}"/g;
/** Where a text speaks of a revision. */
const REVISIONS: readonly RegExp[] = [
  /(?<=too old resource version: )\d+/g,
  /(?<=too old resource version: \d+ \()\d+/g,
  /(?<=Too large resource version: \d+, current: )\d+/g,
  /(?<=ResourceVersion in the precondition \()\d+/g,
  /(?<=ResourceVersion in record \()\d+/g,
  /(?<=ResourceVersion in precondition: )\d+/g,
  /(?<=ResourceVersion in object meta: )\d+/g,
];
/** A time nearer than this to the present was made by the server. Unit: milliseconds. */
const PRESENT = 24 * 60 * 60_000;

export class Tokens {
  /** Texts as the server gave them, and what they are called. */
  readonly #names = new Map<string, string>();
  /** What a pattern finds, by the whole of it: an address may begin with another one. */
  readonly #found = new Map<string, string>();
  readonly #revisions = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  readonly #sent = new Set<string>();
  /** The seconds of the times among them, which a server may write with another fraction. */
  readonly #sentSeconds = new Set<number>();

  readonly #begun: number[] = [];
  readonly #nowMs: () => number;

  /** @param fixed - Texts that have a name from the start, longest first. */
  constructor(fixed: readonly (readonly [text: string, name: string])[], nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
    for (const [text, name] of fixed) this.#names.set(text, name);
  }

  /** Times from this second on have a name of their own. Unit: seconds. */
  beginSecond(second: number): void {
    this.#begun.push(second);
  }

  /** Notes what a request says: a server that says it back has not made it up. */
  noteSent(text: string): void {
    for (const pattern of [UUID, ADDRESS, NODE_PORT])
      for (const [found] of text.matchAll(pattern)) this.#sent.add(found);
    for (const [time] of text.matchAll(TIME)) this.#sentSeconds.add(secondOf(time));
  }

  /** Replaces `text` by a name wherever it occurs from now on. */
  learn(text: string, name: string): void {
    if (!this.#names.has(text)) this.#names.set(text, `<${name} ${this.#count(name)}>`);
  }

  /** The name of one object's resourceVersion, by the order in which they appear. */
  revision(value: string): string {
    if (!/^[1-9]\d*$/.test(value)) return value;
    let name = this.#revisions.get(value);
    if (name === undefined) this.#revisions.set(value, (name = `<rv ${this.#count("rv")}>`));
    return name;
  }

  /** A port the server chose. */
  port(value: number): number | string {
    if (this.#sent.has(String(value))) return value;
    this.learn(`port ${value}`, "nodePort");
    return this.#names.get(`port ${value}`) ?? value;
  }

  text(value: string): string {
    let text = value.replaceAll(OBJECT, "Invalid value: <object>");
    for (const [found, name] of this.#names) if (text.includes(found)) text = text.replaceAll(found, name);
    text = text
      .replaceAll(TOKEN_VOLUME, "kube-api-access-<suffix>")
      .replaceAll(JWT, "<jwt>")
      .replaceAll(UUID, (uid) => this.#name(uid, "uid"));
    text = text.replaceAll(TIME, (time, fraction?: string) => this.#time(time, fraction));
    for (const pattern of REVISIONS)
      text = text.replaceAll(pattern, (found) => this.#revisions.get(found) ?? "<rv>");
    return text.replaceAll(ADDRESS, (found) => (isAllocated(found) ? this.#name(found, "ip") : found));
  }

  #name(found: string, kind: string): string {
    if (this.#sent.has(found)) return found;
    let name = this.#found.get(found);
    if (name === undefined) this.#found.set(found, (name = `<${kind} ${this.#count(kind)}>`));
    return name;
  }

  #time(time: string, fraction: string | undefined): string {
    if (this.#sentSeconds.has(secondOf(time))) return time;
    if (Math.abs(Date.parse(time) - this.#nowMs()) > PRESENT) return time;
    const later = this.#begun.filter((it) => it <= secondOf(time)).length;
    const since = later === 0 ? "" : ` +${later}`;
    return `<time${fraction === undefined ? "" : "0".repeat(fraction.length - 1)}${since}>`;
  }

  #count(kind: string): number {
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    return count;
  }
}

function secondOf(time: string): number {
  return Math.floor(Date.parse(time) / 1000);
}

/** Ranges that the servers of the corpus give Services: 10.0.0.0/16 and fd00::/112. */
export const SERVICE_RANGES = ["10.0.0.0/16", "fd00::/112"] as const;

function isAllocated(address: string): boolean {
  if (isIP(address) === 4) return address.startsWith("10.0.");
  return isIP(address) === 6 && /^fd00::[0-9a-f]{1,4}$/.test(address);
}
