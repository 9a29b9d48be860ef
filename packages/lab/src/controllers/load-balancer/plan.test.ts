import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { IPFamily, Service } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { AddressBook, isOurs } from "./plan.ts";

const PREFIXES = [parsePrefix("192.0.2.0/29"), parsePrefix("2001:db8::/125")];
const DUAL: IPFamily[] = ["IPv4", "IPv6"];

function service(name: string, spec: Service["spec"] = {}, ips: readonly string[] = []): Service {
  return {
    metadata: { name, namespace: "work", creationTimestamp: `2026-01-01T00:00:0${name.length}Z` },
    spec: { type: "LoadBalancer", ipFamilies: DUAL, ...spec },
    status: { loadBalancer: { ingress: ips.map((ip) => ({ ip })) } },
  };
}
const given = (book: AddressBook, it: Service): (string | undefined)[] =>
  book.assign(keyOf(it), it).ingress.map(({ ip }) => ip);

describe("a load balancer's addresses", () => {
  it("are one of each family of the Service, in its order", () => {
    const book = new AddressBook(PREFIXES);
    expect(given(book, service("a"))).toEqual(["192.0.2.1", "2001:db8::1"]);
    expect(given(book, service("bb", { ipFamilies: ["IPv6"] }))).toEqual(["2001:db8::2"]);
  });

  it("stay the same however often the Service is looked at, and go with a family that it gives up", () => {
    const book = new AddressBook(PREFIXES);
    const [v4] = given(book, service("a"));
    expect(given(book, service("a"))[0]).toBe(v4);
    expect(given(book, service("a", { ipFamilies: ["IPv6"] }))).toEqual(["2001:db8::1"]);
    expect(given(book, service("bb"))[0]).toBe(v4);
  });

  it("are those that Services have already, after a restart; of two with one address the older keeps it", () => {
    const book = new AddressBook(PREFIXES);
    const older = service("a", {}, ["192.0.2.5", "2001:db8::5"]);
    const younger = service("bb", {}, ["192.0.2.5", "2001:db8::6"]);
    book.adopt([younger, older].map((it) => [keyOf(it), it] as const));
    expect(given(book, younger)).toEqual(["192.0.2.1", "2001:db8::6"]);
    expect(given(book, older)).toEqual(["192.0.2.5", "2001:db8::5"]);
  });

  it("are those that the Service requests, if they are free and in our pools", () => {
    const book = new AddressBook(PREFIXES);
    expect(given(book, service("a", { loadBalancerIP: "192.0.2.4" }))[0]).toBe("192.0.2.4");
    expect(given(book, service("bb", { loadBalancerIP: "192.0.2.4" }))[0]).toBe("192.0.2.1");
    expect(given(book, service("ccc", { loadBalancerIP: "198.51.100.1" }))[0]).toBe("192.0.2.2");
    expect(given(book, service("bb", { loadBalancerIP: "192.0.2.6" }))[0]).toBe("192.0.2.6");
  });

  it("run out with a message, and are available again once one is released", () => {
    const book = new AddressBook([parsePrefix("192.0.2.0/30")]);
    for (const name of ["a", "b"]) given(book, service(name));
    const late = service("c");
    expect(book.assign(keyOf(late), late)).toEqual({
      ingress: [],
      missing: ["IPv4 (192.0.2.0/30)", "IPv6 (no CIDR given)"],
    });
    book.release(objectKey("work", "a"));
    expect(given(book, late)).toEqual(["192.0.2.1"]);
  });

  it("are never assigned twice, whatever Services are created, deleted and requested", () => {
    const address = fc.nat(7).map((host) => `192.0.2.${host}`);
    const step = fc.record({
      name: fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h"),
      families: fc.constantFrom<IPFamily[]>(DUAL, ["IPv4"], ["IPv6"]),
      asks: fc.option(address),
      shows: fc.array(address, { maxLength: 1 }),
      goes: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const book = new AddressBook(PREFIXES);
        const held = new Map<string, string[]>();
        for (const { name, families, asks, shows, goes } of steps) {
          const wish = asks === null ? {} : { loadBalancerIP: asks };
          const it = service(name, { ipFamilies: families, ...wish }, shows);
          if (goes) book.release(keyOf(it));
          held.set(name, goes ? [] : book.assign(keyOf(it), it).ingress.map(({ ip = "" }) => ip));
          const all = [...held.values()].flat();
          expect(new Set(all).size).toBe(all.length);
          expect(all.every((ip) => book.covers(ip))).toBe(true);
        }
        // None was lost on the way: with all Services gone, all six can be given again.
        for (const name of held.keys()) book.release(objectKey("work", name));
        const again = Array.from({ length: 6 }, (_, at) => given(book, service(`again-${at}`)));
        expect(again.every((ips) => ips.length === 2)).toBe(true);
      }),
    );
  });

  it("are assigned unless the Service requests another class", () => {
    expect(isOurs(service("a"))).toBe(true);
    expect(isOurs(service("a", { loadBalancerClass: "fairlead.dev/lab" }))).toBe(true);
    expect(isOurs(service("a", { loadBalancerClass: "example.com/other" }))).toBe(false);
    expect(isOurs(service("a", { type: "NodePort" }))).toBe(false);
  });
});
