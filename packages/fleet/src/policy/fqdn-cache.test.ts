import { parseAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { expect, it } from "vitest";
import { FqdnCache } from "./fqdn-cache.ts";

const POD = parseAddress("10.244.1.7");
const OTHER = parseAddress("10.244.1.8");
const WILD = "*.example.com";

function addresses(untilMs: number, ...all: readonly string[]): ReadonlyMap<IpAddress, number> {
  return new Map(all.map((it) => [parseAddress(it), untilMs]));
}

function cacheOf(...sets: readonly string[]): FqdnCache {
  const cache = new FqdnCache();
  for (const it of sets) cache.track(it);
  return cache;
}

function answer(cache: FqdnCache, name: string, untilMs: number, ...all: readonly string[]): void {
  cache.answered({ pod: POD, name, sets: [WILD], addresses: addresses(untilMs, ...all) });
}

it("adds the addresses of names that match, once", () => {
  const cache = cacheOf(WILD);
  answer(cache, "a.example.com", 1000, "192.168.2.1", "fd00:db8::1");
  answer(cache, "example.org", 1000, "192.168.2.9");
  expect(cache.take()).toEqual([
    {
      key: `fqdn:${WILD}`,
      state: "changed",
      added: [parseAddress("192.168.2.1"), parseAddress("fd00:db8::1")],
      removed: [],
    },
  ]);
  answer(cache, "a.example.com", 2000, "192.168.2.1");
  expect(cache.take()).toEqual([]);
});

it("keeps an address as long as one name of one pod leads to it", () => {
  const cache = cacheOf(WILD);
  answer(cache, "a.example.com", 1000, "192.168.2.1");
  answer(cache, "b.example.com", 2000, "192.168.2.1");
  cache.answered({
    pod: OTHER,
    name: "a.example.com",
    sets: [WILD],
    addresses: addresses(3000, "192.168.2.1"),
  });
  cache.take();
  cache.expire(1500, () => false);
  cache.expire(2500, () => false);
  expect(cache.take()).toEqual([]);
  cache.podGone(OTHER);
  expect(cache.take()).toMatchObject([{ added: [], removed: [parseAddress("192.168.2.1")] }]);
});

it("keeps an address whose TTL is over while a connection uses it", () => {
  const cache = cacheOf(WILD);
  answer(cache, "a.example.com", 1000, "192.168.2.1", "192.168.2.2");
  cache.take();
  expect([cache.hasExpired(999), cache.hasExpired(1000)]).toEqual([false, true]);
  cache.expire(1000, (it) => it === parseAddress("192.168.2.2"));
  expect(cache.take()).toMatchObject([{ removed: [parseAddress("192.168.2.1")] }]);
  cache.expire(1001, () => false);
  expect(cache.take()).toMatchObject([{ removed: [parseAddress("192.168.2.2")] }]);
});

it("adopts what the kernel has until its time is over", () => {
  const cache = cacheOf(WILD);
  cache.adopt(WILD, addresses(1000, "192.168.2.1", "192.168.2.2"));
  answer(cache, "a.example.com", 5000, "192.168.2.1");
  expect(cache.take()).toMatchObject([{ added: [parseAddress("192.168.2.1"), parseAddress("192.168.2.2")] }]);
  cache.expire(1000, () => false);
  expect(cache.take()).toMatchObject([{ removed: [parseAddress("192.168.2.2")] }]);
});

it("is bounded in addresses of a name and in names of a pod, and the newest stay", () => {
  const cache = cacheOf(WILD);
  for (let at = 0; at < 60; at++) answer(cache, "a.example.com", 1000, `192.168.2.${at}`);
  const [change] = cache.take();
  expect(change?.added.length).toBe(50);
  expect(change?.added).toContain(parseAddress("192.168.2.59"));
  for (let at = 0; at < 1100; at++) answer(cache, `n${at}.example.com`, 1000, `10.18.${at >> 8}.${at & 255}`);
  const [next] = cache.take();
  expect([next?.added.length, next?.removed.length]).toEqual([1000, 50]);
});

it("is bounded in the addresses of all names of a pod, which other pods keep", () => {
  const cache = cacheOf(WILD);
  const own = addresses(1000, "192.168.2.1");
  cache.answered({ pod: OTHER, name: "a.example.com", sets: [WILD], addresses: own });
  for (let at = 0; at < 300; at++) {
    const all = Array.from({ length: 50 }, (_, of) => `10.${18 + (at >> 8)}.${at & 255}.${of}`);
    answer(cache, `n${at}.example.com`, 1000, ...all);
  }
  const [change] = cache.take();
  expect(change?.added.length).toBe(10_000 + 1);
  expect(change?.added).toContain(parseAddress("192.168.2.1"));
  expect(change?.added).toContain(parseAddress("10.19.43.49"));
});

it("has nothing left of a pattern that is gone", () => {
  const cache = cacheOf(WILD);
  answer(cache, "a.example.com", 1000, "192.168.2.1");
  cache.forget(WILD);
  cache.track(WILD);
  expect(cache.take()).toEqual([]);
  answer(cache, "a.example.com", 1000, "192.168.2.1");
  expect(cache.take()).toMatchObject([{ added: [parseAddress("192.168.2.1")] }]);
});

it("never has addresses that are not those of hosts elsewhere", () => {
  const cache = cacheOf(WILD);
  const special = [
    "127.0.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "255.255.255.255",
    "0.0.0.0",
    "::1",
    "fe80::1",
    "::ffff:169.254.169.254",
  ];
  answer(cache, "a.example.com", 1000, ...special);
  expect(cache.take()).toEqual([]);
  answer(cache, "a.example.com", 1000, ...special, "10.0.0.9");
  expect(cache.take()).toMatchObject([{ added: [parseAddress("10.0.0.9")] }]);
});
