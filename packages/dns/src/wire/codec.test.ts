import * as packet from "dns-packet";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hasCode } from "@fairlead/base/errors.ts";
import { canonicalAddress, formatAddress } from "@fairlead/base/netaddr/address.ts";
import { decodeHeader, decodeMessage } from "./decode.ts";
import { encodeMessage } from "./encode.ts";
import { type Message, type RecordData, type ResourceRecord, TYPE } from "./types.ts";

const u8 = fc.nat({ max: 0xff });
const u16 = fc.nat({ max: 0xffff });
const u32 = fc.nat({ max: 0xffff_ffff });
const bytes = fc.uint8Array({ maxLength: 40 });
/** Few labels, so that names share tails and compression has something to do. */
const label = fc.oneof(
  fc.constantFrom("a", "b", "_tcp", "hello", "Work", "svc", "clusterset", "x".repeat(63)),
  fc.stringMatching(/^[a-z0-9-]{1,20}$/),
);
const plainName = fc
  .array(label, { maxLength: 6 })
  .filter((labels) => labels.join(".").length < 250)
  .map((labels) => `${labels.join(".")}.`);
const escapedName = fc
  .tuple(fc.constantFrom("a\\.b", "\\000", "\\\\", "\\255x", "\\032"), plainName)
  .map(([first, rest]) => (rest === "." ? `${first}.` : `${first}.${rest}`))
  .filter((name) => name.length < 250);
const name = fc.oneof(plainName, plainName, escapedName);

function dataOf(anyName: fc.Arbitrary<string>): fc.Arbitrary<RecordData> {
  return fc.oneof(
    fc.record({ type: fc.constant("A" as const), address: u32 }),
    fc.record({
      type: fc.constant("AAAA" as const),
      address: fc.bigInt({ min: 0n, max: (1n << 128n) - 1n }),
    }),
    fc.record({ type: fc.constantFrom("CNAME" as const, "NS" as const, "PTR" as const), target: anyName }),
    fc.record({
      type: fc.constant("TXT" as const),
      strings: fc.array(
        bytes.map((it) => Buffer.from(it).toString("latin1")),
        { minLength: 1, maxLength: 3 },
      ),
    }),
    fc.record({
      type: fc.constant("SRV" as const),
      priority: u16,
      weight: u16,
      port: u16,
      target: anyName,
    }),
    fc.record({
      type: fc.constant("SOA" as const),
      mname: anyName,
      rname: anyName,
      serial: u32,
      refresh: u32,
      retry: u32,
      expire: u32,
      minimum: u32,
    }),
    fc.record({ type: fc.constant("unknown" as const), code: fc.constantFrom(64, 65, 65_280), bytes }),
  );
}

function messageOf(anyName: fc.Arbitrary<string>): fc.Arbitrary<Message> {
  const record: fc.Arbitrary<ResourceRecord> = fc.record({
    name: anyName,
    class: fc.constant(1),
    ttl: fc.nat({ max: 0x7fff_ffff }),
    data: dataOf(anyName),
  });
  const records = fc.array(record, { maxLength: 6 });
  const option = fc.record({ code: u16, data: bytes });
  const edns = fc.record({
    udpSize: u16,
    version: u8,
    dnssecOk: fc.boolean(),
    options: fc.array(option, { maxLength: 3 }),
  });
  return fc
    .record({
      id: u16,
      response: fc.boolean(),
      opcode: fc.nat({ max: 15 }),
      authoritative: fc.boolean(),
      truncated: fc.boolean(),
      recursionDesired: fc.boolean(),
      recursionAvailable: fc.boolean(),
      authenticData: fc.boolean(),
      checkingDisabled: fc.boolean(),
      rcode: fc.nat({ max: 0xfff }),
      questions: fc.array(fc.record({ name: anyName, type: u16, class: u16 }), { maxLength: 2 }),
      answers: records,
      authorities: records,
      additionals: records,
      edns: fc.option(edns, { nil: undefined }),
    })
    .map(({ edns: opt, ...message }) =>
      opt === undefined ? { ...message, rcode: message.rcode & 15 } : { ...message, edns: opt },
    );
}

/** Compression may change the case of a name that occurs earlier in another case. */
function folded(message: Message): unknown {
  return JSON.parse(
    JSON.stringify(message, (key, value: unknown) => {
      if (typeof value === "bigint") return value.toString();
      if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
      const isName = ["name", "target", "mname", "rname"].includes(key);
      return isName && typeof value === "string" ? value.toLowerCase() : value;
    }),
  );
}

describe("a DNS message", () => {
  it("comes back as it was written", () => {
    fc.assert(
      fc.property(messageOf(name), (message) => {
        expect(folded(decodeMessage(encodeMessage(message)))).toEqual(folded(message));
      }),
      { numRuns: 300 },
    );
  });

  it("is read by dns-packet as we meant it", () => {
    fc.assert(
      fc.property(messageOf(plainName), (message) => {
        // It also reads what is in EDNS options, which here is noise.
        const { edns: _, ...plain } = message;
        const theirs = packet.decode(encodeMessage(plain));
        expect(theirs.id).toBe(message.id);
        expect((theirs.questions ?? []).map((it) => it.name.toLowerCase())).toEqual(
          message.questions.map((it) => withoutDot(it.name)),
        );
        expect(theirs.answers?.map(described)).toEqual(message.answers.map(describedOurs));
        expect(theirs.authorities?.map(described)).toEqual(message.authorities.map(describedOurs));
      }),
      { numRuns: 300 },
    );
  });

  it("that dns-packet wrote is read as it meant it", () => {
    fc.assert(
      fc.property(fc.array(plainName, { minLength: 1, maxLength: 5 }), u16, (names, id) => {
        const theirs = packet.encode({
          type: "response",
          id,
          flags: packet.AUTHORITATIVE_ANSWER,
          questions: [{ type: "SRV", name: withoutDot(names[0] ?? ".") }],
          answers: names.map((it) => ({
            type: "SRV",
            name: withoutDot(it),
            ttl: 5,
            data: { port: 42, priority: 1, weight: 2, target: withoutDot(it) },
          })),
          additionals: [
            { type: "A", name: "a.b", ttl: 5, data: "10.0.0.1" },
            { type: "AAAA", name: "a.b", ttl: 5, data: "fd00::1" },
            {
              type: "OPT",
              name: ".",
              udpPayloadSize: 1232,
              extendedRcode: 0,
              ednsVersion: 0,
              flags: packet.DNSSEC_OK,
              flag_do: true,
              options: [],
            },
          ],
        });
        const ours = decodeMessage(theirs);
        expect(ours).toMatchObject({ id, response: true, authoritative: true, rcode: 0 });
        expect(ours.edns).toEqual({ udpSize: 1232, version: 0, dnssecOk: true, options: [] });
        expect(ours.answers.map((it) => it.data)).toEqual(
          names.map((it) => ({ type: "SRV", port: 42, priority: 1, weight: 2, target: it.toLowerCase() })),
        );
        expect(ours.additionals.map((it) => it.data)).toEqual([
          { type: "A", address: 0x0a00_0001 },
          { type: "AAAA", address: (0xfd00n << 112n) | 1n },
        ]);
      }),
    );
  });

  it("writes a name once and points to it afterwards", () => {
    const owner = "hello.work.svc.clusterset.local.";
    const message = answerOf(owner, 20);
    // Header, question, 20 records of a pointer and 14 bytes.
    expect(encodeMessage(message).length).toBe(12 + owner.length + 1 + 4 + 20 * (2 + 14));
  });

  it("never compresses the target of an SRV record", () => {
    const target = "hello.work.svc.clusterset.local.";
    const data = { type: "SRV", priority: 0, weight: 1, port: 80, target } as const;
    const wire = encodeMessage({
      ...answerOf(target, 0),
      answers: [{ name: target, class: 1, ttl: 5, data }],
    });
    expect(wire.subarray(-target.length - 1).toString("latin1", 1, 6)).toBe("hello");
  });

  it("fits its limit: TC is set when an answer is left out, not when an additional record is", () => {
    fc.assert(
      fc.property(messageOf(name), fc.integer({ min: 512, max: 1500 }), (message, limit) => {
        const question = { name: "a.", type: TYPE.A, class: 1 };
        const full = { ...message, truncated: false, questions: [question] };
        const read = decodeMessage(encodeMessage(full, { limit }));
        expect(encodeMessage(full, { limit }).length).toBeLessThanOrEqual(limit);
        const allFit =
          read.answers.length === full.answers.length && read.authorities.length === full.authorities.length;
        expect(read.truncated).toBe(!allFit);
        if (!allFit) expect(read.additionals).toEqual([]);
        expect(read.edns).toEqual(full.edns);
      }),
      { numRuns: 300 },
    );
    const cut = decodeMessage(
      encodeMessage(answerOf("hello.work.svc.clusterset.local.", 100), { limit: 512 }),
    );
    expect(cut.truncated).toBe(true);
    expect(cut.answers.length).toBe(28);
  });

  it("is refused with DNS_MALFORMED, and with nothing else, whatever the bytes", () => {
    const damaged = fc
      .tuple(messageOf(name), fc.array(fc.tuple(fc.nat(), u8), { maxLength: 8 }), fc.nat({ max: 3 }))
      .map(([message, edits, cut]) => {
        const wire = Buffer.from(encodeMessage(message));
        for (const [at, value] of edits) wire[at % wire.length] = value;
        return wire.subarray(0, wire.length - cut);
      });
    fc.assert(
      fc.property(fc.oneof(damaged, fc.uint8Array({ maxLength: 200 })), (wire) => {
        let message: Message;
        try {
          message = decodeMessage(wire);
        } catch (error) {
          if (!hasCode(error, "DNS_MALFORMED")) throw error;
          return;
        }
        expect(folded(decodeMessage(encodeMessage(message)))).toEqual(folded(message));
      }),
      { numRuns: 3000 },
    );
  });

  it("has a readable header even if the rest is malformed", () => {
    const wire = Buffer.from(encodeMessage(answerOf("a.", 1)));
    expect(decodeHeader(wire.subarray(0, 14))).toMatchObject({ id: 7, response: true, opcode: 0 });
    expect(decodeHeader(wire.subarray(0, 11))).toBeUndefined();
  });
});

function answerOf(owner: string, count: number): Message {
  return {
    id: 7,
    response: true,
    opcode: 0,
    authoritative: true,
    truncated: false,
    recursionDesired: false,
    recursionAvailable: false,
    authenticData: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [{ name: owner, type: TYPE.A, class: 1 }],
    answers: Array.from({ length: count }, (_, index) => ({
      name: owner,
      class: 1,
      ttl: 5,
      data: { type: "A", address: index },
    })),
    authorities: [],
    additionals: [],
  };
}

function withoutDot(text: string): string {
  return text === "." ? "." : text.slice(0, -1).toLowerCase();
}

function described(answer: packet.Answer): unknown {
  if (answer.type === "OPT") return undefined;
  const data: unknown = answer.data;
  const shown = answer.type === "AAAA" ? canonicalAddress(answer.data) : simplified(data);
  return { name: answer.name.toLowerCase(), type: answer.type, data: shown };
}

function simplified(data: unknown): unknown {
  if (Buffer.isBuffer(data)) return data.toString("hex");
  if (Array.isArray(data)) return data.map(simplified);
  if (typeof data === "string") return data.toLowerCase();
  if (typeof data !== "object" || data === null) return data;
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, simplified(value)]));
}

function describedOurs(record: ResourceRecord): unknown {
  const known = record.data.type === "unknown" ? `UNKNOWN_${record.data.code}` : record.data.type;
  return { name: withoutDot(record.name), type: known, data: theirData(record.data) };
}

function theirData(data: RecordData): unknown {
  switch (data.type) {
    case "A":
    case "AAAA":
      return formatAddress(data.address);
    case "TXT":
      return data.strings.map((it) => Buffer.from(it, "latin1").toString("hex"));
    case "unknown":
      return Buffer.from(data.bytes).toString("hex");
    case "SRV":
      return {
        priority: data.priority,
        weight: data.weight,
        port: data.port,
        target: withoutDot(data.target),
      };
    case "SOA": {
      const { type: _, mname, rname, ...numbers } = data;
      return { mname: withoutDot(mname), rname: withoutDot(rname), ...numbers };
    }
    default:
      return withoutDot(data.target);
  }
}
