import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  derivedServiceName,
  isClusterName,
  loadBalancerServiceName,
  mailboxName,
  shortHash,
  sliceExportName,
} from "./cluster-names.ts";

const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
const tricky = fc.constantFrom("a", "b", "a-b", "b-c", "a-b-c", "c", "1a", "a".repeat(63));
const part = fc.oneof(label, tricky);
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

describe("names of derived objects", () => {
  it("are those of older agents where these are unambiguous", () => {
    expect(mailboxName("work", "hello")).toBe("work-hello");
    expect(loadBalancerServiceName("work", "hello-web")).toBe("work-hello-web");
  });

  it("use SHA-256 in base32hex for the multi-cluster VIP, as the reference controller does", () => {
    // RFC 4648 base32 of the digest of nothing is 4OYMIQUY7Q..., which is this in base32hex.
    expect(derivedServiceName("work", "hello")).toMatch(/^derived-[0-9a-v]{10}$/);
    expect(shortHash("", 10)).toBe("seoc8gkovg");
  });

  it("differ for different services", () => {
    fc.assert(
      fc.property(part, part, part, part, (ns1, name1, ns2, name2) => {
        fc.pre(ns1 !== ns2 || name1 !== name2);
        for (const nameOf of [mailboxName, loadBalancerServiceName, derivedServiceName])
          expect(nameOf(ns1, name1)).not.toBe(nameOf(ns2, name2));
      }),
    );
  });

  it("differ where one service is named like the hashed name of another", () => {
    const victim = loadBalancerServiceName("a-b", "c");
    expect(loadBalancerServiceName("a", victim.slice(2))).not.toBe(victim);
  });

  it("fit what Kubernetes allows", () => {
    fc.assert(
      fc.property(part, part, (namespace, name) => {
        expect(loadBalancerServiceName(namespace, name)).toMatch(/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/);
        expect(mailboxName(namespace, name)).toMatch(SUBDOMAIN);
        expect(mailboxName(namespace, name).length).toBeLessThanOrEqual(253);
      }),
    );
  });

  it("of slices begin with the cluster, fit a subdomain and differ", () => {
    const slice = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,60}){0,3}$/);
    fc.assert(
      fc.property(part, part, slice, part, (cluster, namespace, name, other) => {
        const made = sliceExportName(cluster, namespace, name);
        expect(made.startsWith(`${cluster}-`)).toBe(true);
        expect(made).toMatch(SUBDOMAIN);
        expect(made.length).toBeLessThanOrEqual(253);
        if (other !== namespace) expect(sliceExportName(cluster, other, name)).not.toBe(made);
      }),
    );
  });

  it("of clusters are labels of RFC 1123", () => {
    expect(isClusterName("member-1")).toBe(true);
    for (const bad of ["", "A", "a.b", "-a", "a-", "a_b", "a".repeat(64)])
      expect(isClusterName(bad)).toBe(false);
  });
});
