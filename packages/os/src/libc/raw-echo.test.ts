import { expect, it } from "vitest";
import { parseEcho } from "./raw-echo.ts";

const HEADER = Buffer.from("4500002c00004000400100000a70080102000001", "hex");

it("reads echo requests and replies, over IPv4 behind the header", () => {
  const packet = Buffer.concat([HEADER, Buffer.from([8, 0, 0, 0, 0, 0, 0, 0]), Buffer.from("nonce")]);
  expect(parseEcho("IPv4", packet)).toEqual([
    { kind: "request", source: "10.112.8.1", payload: Buffer.from("nonce") },
  ]);
  expect(parseEcho("IPv6", Buffer.from([129, 0, 0, 0, 0, 0, 0, 0, 1]))).toEqual([
    { kind: "reply", source: undefined, payload: Buffer.from([1]) },
  ]);
});

it("takes no other messages, and none that are cut", () => {
  expect(parseEcho("IPv6", Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]))).toEqual([]);
  expect(parseEcho("IPv4", Buffer.concat([HEADER, Buffer.from([8, 0])]))).toEqual([]);
  expect(parseEcho("IPv4", Buffer.alloc(0))).toEqual([]);
});
