import { describe, expect, it } from "vitest";
import { decodeMessage } from "./decode.ts";

/** Header with QDCOUNT, ANCOUNT, NSCOUNT, ARCOUNT; then the bytes of `rest` in hexadecimal, blanks ignored. */
function message(counts: readonly [number, number, number, number], rest: string): Buffer {
  const header = Buffer.alloc(12);
  for (const [index, count] of counts.entries()) header.writeUInt16BE(count, 4 + index * 2);
  return Buffer.concat([header, Buffer.from(rest.replaceAll(" ", ""), "hex")]);
}

const question = "01 61 00 0001 0001";

/** The anti-patterns of RFC 9267, section by section, and their neighbours. */
const cases: readonly (readonly [string, Buffer])[] = [
  ["a pointer to itself", message([1, 0, 0, 0], "c00c 0001 0001")],
  ["two pointers that lead to each other", message([1, 0, 0, 0], "c00e c00c 0001 0001")],
  [
    "a pointer into the labels in front of it, so that the name repeats",
    message([1, 0, 0, 0], "01 61 c00c 0001 0001"),
  ],
  ["a pointer forward", message([2, 0, 0, 0], "c012 0001 0001 01 61 00 0001 0001")],
  ["a pointer into the header", message([1, 0, 0, 0], "c000 0001 0001")],
  ["a pointer behind the message", message([1, 0, 0, 0], "ffff 0001 0001")],
  ["a pointer cut in half", message([1, 0, 0, 0], "c0")],
  ["a label of the reserved kind 01", message([1, 0, 0, 0], "41 61 00 0001 0001 0000")],
  ["a label of the reserved kind 10", message([1, 0, 0, 0], "81 61 00 0001 0001 0000")],
  ["a label that ends behind the message", message([1, 0, 0, 0], "3f 61 61 61 61 61")],
  ["a name without an end", message([1, 0, 0, 0], "01 61 01 61 01 61")],
  [
    "a name of 256 bytes",
    message([1, 0, 0, 0], `${`3f${"61".repeat(63)}`.repeat(3)} 3e${"61".repeat(62)} 00 0001 0001`),
  ],
  ["a name made too long by pointers", longByPointers()],
  ["more questions than there are", message([2, 0, 0, 0], question)],
  ["65535 answers in 12 bytes", message([0, 0xffff, 0, 0], "")],
  ["65535 records of each kind", message([0xffff, 0xffff, 0xffff, 0xffff], question)],
  ["record data that ends behind the message", message([0, 1, 0, 0], "00 0001 0001 00000005 0010 0a000001")],
  ["an A record of three bytes", message([0, 1, 0, 0], "00 0001 0001 00000005 0003 0a0000")],
  ["an A record of five bytes", message([0, 1, 0, 0], "00 0001 0001 00000005 0005 0a00000100")],
  ["an AAAA record of four bytes", message([0, 1, 0, 0], "00 001c 0001 00000005 0004 0a000001")],
  ["an empty TXT record", message([0, 1, 0, 0], "00 0010 0001 00000005 0000")],
  [
    "a TXT string longer than its record",
    message([0, 2, 0, 0], "00 0010 0001 00000005 0002 05 61 00 0001 0001 00000005 0004 0a000001"),
  ],
  ["a CNAME that runs past its record", message([0, 1, 0, 0], "00 0005 0001 00000005 0002 01 61 00 00")],
  ["an SRV record without a target", message([0, 1, 0, 0], "00 0021 0001 00000005 0006 0000 0000 0050")],
  ["a SOA record cut short", message([0, 1, 0, 0], "00 0006 0001 00000005 0006 00 00 00000001")],
  ["an OPT record of another name than the root", message([0, 0, 0, 1], "01 61 00 0029 04d0 00000000 0000")],
  ["two OPT records", message([0, 0, 0, 2], "00 0029 04d0 00000000 0000 00 0029 04d0 00000000 0000")],
  ["an OPT record among the answers", message([0, 1, 0, 0], "00 0029 04d0 00000000 0000")],
  ["an EDNS option longer than its record", message([0, 0, 0, 1], "00 0029 04d0 00000000 0005 000a 0008 61")],
  ["bytes behind the message", message([1, 0, 0, 0], `${question} 00`)],
  ["half a header", Buffer.alloc(7)],
  ["nothing", Buffer.alloc(0)],
];

/** Each name adds 64 bytes to the one before it and points there: the fifth exceeds 255 bytes though each is short. */
function longByPointers(): Buffer {
  const first = `3f${"61".repeat(63)}00 0001 0001`;
  let offset = 12;
  let rest = first.replaceAll(" ", "");
  for (let index = 0; index < 4; index++) {
    const pointer = (0xc000 | offset).toString(16);
    offset = 12 + rest.length / 2;
    rest += `3f${"62".repeat(63)}${pointer}00010001`;
  }
  return message([5, 0, 0, 0], rest);
}

describe("a malformed DNS message", () => {
  it.each(cases)("is refused: %s", (_, bytes) => {
    expect(() => decodeMessage(bytes)).toThrow(expect.objectContaining({ code: "DNS_MALFORMED" }));
  });

  it("costs work in proportion to its length: pointers make no name longer than 255 bytes", () => {
    // 5000 questions, each a pointer to the same long name: what a naive decoder expands to 1 MB, and a looping one forever.
    const name = `${`3f${"61".repeat(63)}`.repeat(3)}3d${"61".repeat(61)}00`;
    const rest = `${name}00010001${"c00c00010001".repeat(5000)}`;
    const decoded = decodeMessage(message([5001, 0, 0, 0], rest));
    expect(decoded.questions).toHaveLength(5001);
    expect(decoded.questions.at(-1)?.name.length).toBe(254);
  });
});
