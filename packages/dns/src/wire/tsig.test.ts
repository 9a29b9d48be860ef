import { assert, integer, property, uint8Array } from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeMessage } from "./decode.ts";
import { encodeMessage } from "./encode.ts";
import { parseTsigKey, signMessage, type TsigKey, verifyAnswer } from "./tsig.ts";
import { CLASS, type Message, OPCODE, RCODE, TYPE } from "./types.ts";

const key: TsigKey = { name: "fleet.", secret: Buffer.alloc(32, 1) };
const NOW = 1_800_000_000_000;
const message: Message = {
  id: 4711,
  response: true,
  opcode: OPCODE.UPDATE,
  authoritative: false,
  truncated: false,
  recursionDesired: false,
  recursionAvailable: false,
  authenticData: false,
  checkingDisabled: false,
  rcode: RCODE.NOERROR,
  questions: [{ name: "tm.example.", type: TYPE.SOA, class: CLASS.IN }],
  answers: [],
  authorities: [],
  additionals: [],
};

/** An answer is signed over the request's signature as well: here that of no request. */
function answer(request: Uint8Array = Buffer.alloc(0)): Buffer {
  return signMessage(message, key, NOW, request).bytes;
}
const none = Buffer.alloc(0);

describe("a signed message", () => {
  it("is taken with its signature off", () => {
    expect(verifyAnswer(answer(none), key, none, NOW)).toEqual(message);
    const mac = Buffer.alloc(32, 9);
    expect(verifyAnswer(answer(mac), key, mac, NOW)).toEqual(message);
  });

  it.each<[string, () => unknown]>([
    ["another secret", () => verifyAnswer(answer(), { ...key, secret: Buffer.alloc(32, 2) }, none, NOW)],
    ["another name of the key", () => verifyAnswer(answer(), { ...key, name: "other." }, none, NOW)],
    ["another request", () => verifyAnswer(answer(), key, Buffer.alloc(32, 3), NOW)],
    ["another time", () => verifyAnswer(answer(), key, none, NOW + 301_000)],
    ["no signature", () => verifyAnswer(encodeMessage(message), key, none, NOW)],
  ])("is refused with %s", (_, act) => {
    expect(act).toThrow(expect.objectContaining({ code: "DNS_REFUSED" }));
  });

  it("is refused with any bit turned", () => {
    const bytes = answer();
    assert(
      property(integer({ min: 0, max: bytes.length * 8 - 1 }), (bit) => {
        const turned = Buffer.from(bytes);
        turned[bit >> 3] = (turned[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        // Names are compared without case.
        if (turned.toString("latin1").toLowerCase() === bytes.toString("latin1").toLowerCase()) return;
        // The id in the header is not signed, the original one is.
        if (bit < 16) return;
        expect(() => verifyAnswer(turned, key, none, NOW)).toThrow(/DNS/);
      }),
    );
  });

  it("is refused or malformed, whatever the bytes", () => {
    assert(
      property(uint8Array({ minLength: 12, maxLength: 200 }), (bytes) => {
        expect(() => verifyAnswer(Buffer.from(bytes), key, none, NOW)).toThrow(/DNS/);
      }),
    );
  });
});

describe("records without data", () => {
  it("are read back in the classes in which updates have them", () => {
    const bare = { ttl: 0, data: { type: "unknown" as const, code: TYPE.A, bytes: new Uint8Array() } };
    const update = {
      ...message,
      answers: [{ name: "a.tm.example.", class: CLASS.NONE, ...bare }],
      authorities: [{ name: "b.tm.example.", class: CLASS.ANY, ...bare }],
    };
    expect(decodeMessage(encodeMessage(update))).toEqual(update);
    const plain = { ...message, answers: [{ name: "a.tm.example.", class: CLASS.IN, ...bare }] };
    expect(() => decodeMessage(encodeMessage(plain))).toThrow(
      expect.objectContaining({ code: "DNS_MALFORMED" }),
    );
  });
});

describe("a key", () => {
  const secret = Buffer.alloc(32, 5).toString("base64");

  it("is read as tsig-keygen writes it, with comments or without quotes", () => {
    const text = `# of the fleet\nkey "Fleet.Example" {\n\talgorithm hmac-sha256;\n\tsecret "${secret}";\n};\n`;
    expect(parseTsigKey(text)).toEqual({ name: "fleet.example.", secret: Buffer.alloc(32, 5) });
    expect(parseTsigKey(`key fleet. { algorithm HMAC-SHA256; secret ${secret}; };`).name).toBe("fleet.");
  });

  it.each([
    ["nothing", ""],
    ["no secret", 'key "a" { algorithm hmac-sha256; };'],
    ["another algorithm", `key "a" { algorithm hmac-md5; secret "${secret}"; };`],
    ["a short secret", 'key "a" { algorithm hmac-sha256; secret "AAAA"; };'],
  ])("is refused with %s, and its secret is not repeated", (_, text) => {
    expect(() => parseTsigKey(text)).toThrow(expect.objectContaining({ code: "OPTION_INVALID" }));
    expect(() => parseTsigKey(text)).not.toThrow(secret);
  });
});
