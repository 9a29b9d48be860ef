import type { Socket } from "node:net";
import { expect, it } from "vitest";
import { ConnectionLimit, networkOf } from "./connection-limit.ts";

function limited(perGroup: number, all: number) {
  const closed: string[] = [];
  const limit = new ConnectionLimit({ perGroup, all });
  const add = (key: string, group: string): void => limit.add(key, group, () => closed.push(key));
  return { limit, closed, add };
}

it("beyond the limit of a group its oldest connection is closed, and none of others", () => {
  const { limit, closed, add } = limited(2, 10);
  add("other", "b");
  for (const key of ["1", "2", "3", "4"]) add(key, "a");
  expect(closed).toEqual(["1", "2"]);
  expect(limit.size).toBe(3);
});

it("beyond the limit of all the oldest connection is closed, and one that was used is not the oldest", () => {
  const { limit, closed, add } = limited(10, 3);
  for (const key of ["1", "2", "3"]) add(key, key);
  add("1", "1");
  add("4", "4");
  expect(closed).toEqual(["2"]);
  limit.delete("3");
  add("5", "5");
  expect(closed).toEqual(["2"]);
  limit.closeAll();
  expect(closed).toEqual(["2", "1", "4", "5"]);
  expect(limit.size).toBe(0);
});

it("an IPv6 host has all addresses of its /64, and an IPv4 one its own, also on a socket for both", () => {
  const of = (remoteAddress: string): string => networkOf({ remoteAddress } as Socket);
  expect(of("fd00::1:2:3:4")).toBe(of("fd00::9"));
  expect(of("fd00:0:0:1::1")).not.toBe(of("fd00::1"));
  expect(of("::ffff:10.0.0.1")).toBe(of("10.0.0.1"));
  expect(of("::ffff:10.0.0.1")).not.toBe(of("::ffff:10.0.0.2"));
});
