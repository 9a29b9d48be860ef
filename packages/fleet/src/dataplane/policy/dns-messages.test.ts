import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { decodeMessage } from "@fairlead/dns/wire/decode.ts";
import { type Message, type Question, RCODE, type ResourceRecord } from "@fairlead/dns/wire/types.ts";
import { expect, it } from "vitest";
import { addressesIn, failureOf, plainName, readAnswer, readQuery } from "./dns-messages.ts";

const NAME = "Web.example.com.";
const QUESTION: Question = { name: NAME, type: 1, class: 1 };

function message(more: Partial<Message> = {}): Message {
  return {
    id: 7,
    response: false,
    opcode: 0,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    authenticData: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [QUESTION],
    answers: [],
    authorities: [],
    additionals: [],
    ...more,
  };
}

const QUERY = { message: message(), question: QUESTION };

function a(name: string, text: string, ttl = 60): ResourceRecord {
  const address = parseAddress(text);
  const data =
    typeof address === "number" ? { type: "A" as const, address } : { type: "AAAA" as const, address };
  return { name, class: 1, ttl, data };
}

function alias(name: string, target: string): ResourceRecord {
  return { name, class: 1, ttl: 60, data: { type: "CNAME", target } };
}

it("reads one question of the Internet, and nothing else", () => {
  expect(readQuery(encodeMessage(message()))?.question).toEqual(QUESTION);
  for (const it of [
    { response: true },
    { opcode: 5 },
    { questions: [] },
    { questions: [QUESTION, QUESTION] },
    { questions: [{ ...QUESTION, class: 3 }] },
  ])
    expect(readQuery(encodeMessage(message(it)))).toBeUndefined();
  const bytes = encodeMessage(message());
  for (let length = 0; length < bytes.length; length++)
    expect(readQuery(bytes.subarray(0, length))).toBeUndefined();
});

it("takes an answer to its own question only", () => {
  const read = (more: Partial<Message>, id = 7) =>
    readAnswer(encodeMessage(message({ response: true, ...more })), QUERY, id);
  expect(read({ questions: [{ ...QUESTION, name: "web.EXAMPLE.com." }] })).toBeDefined();
  expect(read({}, 8)).toBeUndefined();
  expect(read({ response: false })).toBeUndefined();
  expect(read({ questions: [{ ...QUESTION, name: "web.example.org." }] })).toBeUndefined();
  expect(read({ questions: [{ ...QUESTION, type: 28 }] })).toBeUndefined();
  expect(readAnswer(Buffer.from("not DNS"), QUERY, 7)).toBeUndefined();
});

it("has no name for what patterns cannot mean", () => {
  expect(["Web.Example.COM.", "_dns.a-b.io.", "."].map(plainName)).toEqual([
    "web.example.com",
    "_dns.a-b.io",
    "",
  ]);
  for (const it of ["a\\.b.example.com.", "\\000.example.com.", 'x\\"y.', "*.example.com.", "{}."])
    expect([it, plainName(it)]).toEqual([it, undefined]);
});

it("counts the addresses of the name and of its aliases, and no others", () => {
  const answers = [
    a("other.example.com.", "192.0.2.9"),
    a("edge.example.net.", "2001:db8::1", 30),
    alias("web.example.com.", "CDN.example.net."),
    alias("cdn.example.net.", "edge.example.net."),
    a("edge.example.net.", "192.0.2.1", 20),
    a("WEB.example.com.", "192.0.2.2"),
  ];
  const found = addressesIn(QUERY, message({ answers, additionals: [a(NAME, "192.0.2.8")] }));
  expect(found).toEqual(
    new Map([
      [parseAddress("2001:db8::1"), 30],
      [parseAddress("192.0.2.1"), 20],
      [parseAddress("192.0.2.2"), 60],
    ]),
  );
});

it("does not follow aliases in a circle, or without an end", () => {
  const circle = [alias(NAME, "b.io."), alias("b.io.", NAME), a("b.io.", "192.0.2.1")];
  expect(addressesIn(QUERY, message({ answers: circle })).size).toBe(1);
  const chain = Array.from({ length: 30 }, (_, at) =>
    alias(at === 0 ? NAME : `n${at}.io.`, `n${at + 1}.io.`),
  );
  expect(addressesIn(QUERY, message({ answers: [...chain, a("n30.io.", "192.0.2.1")] })).size).toBe(0);
});

it("refuses with the question and the id of the query", () => {
  expect(decodeMessage(failureOf(QUERY, RCODE.REFUSED))).toMatchObject({
    id: 7,
    response: true,
    rcode: RCODE.REFUSED,
    questions: [QUESTION],
    answers: [],
  });
});
