import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { answerOf, echoRequest, hello, isAnswerTo, isEchoReply, parseHello } from "./protocol.ts";

describe("the protocol of probes", () => {
  it("sends the cluster and the client's address in the first line, and refuses other lines", () => {
    const said = { cluster: "east", peer: "10.1.0.7" };
    expect(parseHello(hello(said).trim())).toEqual(said);
    for (const line of ["", "{}", "null", '{"cluster":1,"peer":"a"}', "HTTP/1.1 400 Bad Request"])
      expect(parseHello(line)).toBeUndefined();
  });

  it("answers a datagram with its nonce and size, never with more than it got", () => {
    for (const length of [0, 1, 16, 19, 20, 1472]) {
      const question = randomBytes(length);
      const answer = answerOf(question);
      expect(answer.length).toBeLessThanOrEqual(length);
      expect(isAnswerTo(question, answer)).toBe(true);
      if (length >= 20) expect(isAnswerTo(randomBytes(length), answer)).toBe(false);
    }
    const long = randomBytes(100);
    expect(isAnswerTo(long, answerOf(long.subarray(0, 60)))).toBe(false);
  });

  it("knows the reply to its own echo request", () => {
    const nonce = randomBytes(16);
    const reply = Buffer.from(echoRequest("IPv6", nonce));
    reply[0] = 129;
    expect(isEchoReply(nonce, reply)).toBe(true);
    expect(isEchoReply(randomBytes(16), reply)).toBe(false);
  });
});
