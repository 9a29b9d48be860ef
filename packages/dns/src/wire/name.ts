import { FleetError } from "@fairlead/base/errors.ts";

/*
 * Names are text in presentation form, always complete: "hello.work.svc.clusterset.local.", the root is ".". A dot or a
 * backslash inside a label has a backslash in front; bytes that are not graphic ASCII are `\DDD` (RFC 1035, section 5.1).
 * So a name is ASCII, and its case can be folded with `toLowerCase`.
 */

/** Most bytes of a name on the wire, and of one label (RFC 1035, section 2.3.4). */
export const MAX_NAME_BYTES = 255;
export const MAX_LABEL_BYTES = 63;

const BACKSLASH = 92;
const DOT = 46;

/** The form in which names are compared: DNS does not distinguish case (RFC 4343). */
export function foldName(name: string): string {
  return name.toLowerCase();
}

/** Whether `name` is `zone` or below it. Both folded. */
export function isUnder(name: string, zone: string): boolean {
  if (zone === "." || name === zone) return true;
  if (!name.endsWith(zone)) return false;
  const before = name.length - zone.length - 1;
  // The dot in front of the zone must separate labels: "a\.b." is not under "b.".
  return name.charCodeAt(before) === DOT && !isEscaped(name, before);
}

function isEscaped(name: string, at: number): boolean {
  let backslashes = 0;
  while (name.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}

/** The labels of a name as presentation text, without the root. */
export function splitLabels(name: string): string[] {
  if (name === ".") return [];
  if (!name.includes("\\")) return name.slice(0, -1).split(".");
  const labels: string[] = [];
  let start = 0;
  for (let at = 0; at < name.length; at++) {
    if (name.charCodeAt(at) === BACKSLASH) at++;
    else if (name.charCodeAt(at) === DOT) {
      labels.push(name.slice(start, at));
      start = at + 1;
    }
  }
  return labels;
}

/**
 * Makes a name of what a person wrote: adds the final dot and checks lengths and escapes.
 *
 * @throws {FleetError} `DNS_MALFORMED`
 */
export function parseName(text: string): string {
  const isComplete = text.endsWith(".") && !isEscaped(text, text.length - 1);
  const name = isComplete ? text : `${text}.`;
  if (text === "" || isEscaped(name, name.length - 1)) throw malformedName(text);
  let bytes = 1;
  for (const label of splitLabels(name)) bytes += labelBytes(label).length + 1;
  if (bytes > MAX_NAME_BYTES) throw malformedName(text);
  return name;
}

/**
 * The bytes of a label.
 *
 * @throws {FleetError} `DNS_MALFORMED` when it is empty, too long, or not ASCII in presentation form.
 */
export function labelBytes(label: string): Uint8Array {
  const bytes: number[] = [];
  for (let at = 0; at < label.length; at++) {
    const code = label.charCodeAt(at);
    if (code !== BACKSLASH) {
      if (code > 0x7e || code < 0x21) throw malformedName(label);
      bytes.push(code);
      continue;
    }
    const escape = /^(?:\d{3}|[^\d])/.exec(label.slice(at + 1));
    if (escape === null) throw malformedName(label);
    const [text] = escape;
    const value = text.length === 3 ? Number(text) : text.charCodeAt(0);
    if (value > 255) throw malformedName(label);
    bytes.push(value);
    at += text.length;
  }
  if (bytes.length === 0 || bytes.length > MAX_LABEL_BYTES) throw malformedName(label);
  return Uint8Array.from(bytes);
}

/** The presentation text of a label's bytes from `start` to `end`. */
export function labelText(bytes: Buffer, start: number, end: number): string {
  for (let at = start; at < end; at++) {
    if (!isPlain(bytes[at] ?? 0)) return escapeLabel(bytes, start, end);
  }
  return bytes.toString("latin1", start, end);
}

function isPlain(byte: number): boolean {
  return byte > 0x20 && byte < 0x7f && byte !== DOT && byte !== BACKSLASH;
}

function escapeLabel(bytes: Buffer, start: number, end: number): string {
  let text = "";
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    if (isPlain(byte)) text += String.fromCharCode(byte);
    else if (byte === DOT || byte === BACKSLASH) text += `\\${String.fromCharCode(byte)}`;
    else text += `\\${String(byte).padStart(3, "0")}`;
  }
  return text;
}

function malformedName(text: string): FleetError {
  return new FleetError("DNS_MALFORMED", `${JSON.stringify(text.slice(0, 80))} is not a domain name`);
}
