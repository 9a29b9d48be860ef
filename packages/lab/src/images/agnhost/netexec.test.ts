import { describe, expect, it } from "vitest";
import { answerHttp, answerUdp, type NetexecFacts } from "./netexec.ts";

const FROM = { address: "10.0.0.9", port: 4711 };
const facts: NetexecFacts = {
  hostname: "server-0",
  httpPort: 8080,
  udpPort: 8081,
  now: () => new Date(0),
  isEnding: () => false,
};

function ask(path: string, more: Partial<NetexecFacts> = {}) {
  const request = { headers: { "x-one": "1" }, from: FROM };
  return answerHttp(new URL(path, "http://h"), request, { ...facts, ...more });
}

describe("netexec", () => {
  it.each([
    ["/", "NOW: 1970-01-01T00:00:00.000Z"],
    ["/clientip", "10.0.0.9:4711"],
    ["/serverport", "8080"],
    ["/hostname", "server-0"],
    ["/hostName", "server-0"],
    ["/header?key=X-One", "1"],
    ["/header", `{"x-one":"1"}`],
    ["/echo?msg=a%20b", "a b"],
    ["/readyz", "ok"],
    ["/healthz", ""],
  ])("answers %s", (path, text) => {
    expect(ask(path)).toEqual({ status: 200, text });
  });

  it("writes an IPv6 client in brackets", () => {
    const request = { headers: {}, from: { address: "fd00::9", port: 1 } };
    expect(answerHttp(new URL("http://h/clientip"), request, facts).text).toBe("[fd00::9]:1");
  });

  it("answers with the status and the place that a request asks for", () => {
    expect(ask("/echo?msg=x&code=503")).toEqual({ status: 503, text: "x" });
    expect(ask("/echo?code=1")).toMatchObject({ status: 200 });
    expect(ask("/redirect?location=/echo&code=307")).toEqual({ status: 307, text: "", location: "/echo" });
    expect(ask("/nothing")).toMatchObject({ status: 404 });
  });

  it("is not ready once it ends, but healthy", () => {
    expect(ask("/readyz", { isEnding: () => true })).toMatchObject({ status: 503 });
    expect(ask("/healthz", { isEnding: () => true })).toMatchObject({ status: 200 });
  });

  it("ends with the code that a request names", () => {
    expect(ask("/exit?code=3").deed).toEqual({ type: "exit", code: 3 });
    expect(ask("/shutdown").deed).toEqual({ type: "exit", code: 0 });
  });

  it("makes requests to another server, at most 1000 of them", () => {
    expect(ask("/dial?host=10.0.0.1&port=80&request=hostname&tries=3").deed).toEqual({
      type: "dial",
      dial: { protocol: "http", host: "10.0.0.1", port: 80, request: "hostname", tries: 3 },
    });
    for (const query of [
      "host=h&port=0&request=r",
      "host=h&port=80",
      "host=h&port=80&request=r&protocol=sctp",
      "host=h&port=80&request=r&tries=100000",
    ])
      expect(ask(`/dial?${query}`)).toMatchObject({ status: 400 });
  });

  it.each([
    ["hostname\n", "server-0"],
    ["echo Hi", "hi"],
    ["clientip", "10.0.0.9:4711"],
    ["serverport", "8081"],
    ["anything", undefined],
  ])("answers the packet %j", (packet, text) => {
    expect(answerUdp(packet, FROM, facts)).toBe(text);
  });
});
