import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { type IdentityPod, MAX_IDENTITY_POD_LABELS } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { labelsOfPod } from "#domain/identity-slice.ts";
import {
  groupOf,
  groupOfSlice,
  holderOf,
  homeOf,
  identityOf,
  planSlices,
  PODS_PER_SLICE,
  templateOf,
} from "./groups.ts";

const GROUP = objectKey("shop", "abc");

function pod(name: string, labels: Record<string, string>, rest: Partial<Pod["metadata"]> = {}): Pod {
  return {
    metadata: { name, namespace: "shop", labels, ...rest },
    spec: {
      containers: [{ name: "main", ports: [{ name: "http", containerPort: 80 }, { containerPort: 81 }] }],
    },
  };
}

describe("pods", () => {
  it("with the same labels, service account and named ports are of one group, also those of a StatefulSet", () => {
    const of = (name: string) => pod(name, { app: "db", "statefulset.kubernetes.io/pod-name": name });
    const template = templateOf(of("db-0"));
    expect(template).toEqual({
      namespace: "shop",
      labels: { app: "db" },
      serviceAccount: "default",
      ports: [{ name: "http", protocol: "TCP", port: 80 }],
    });
    expect(groupOf(template)).toBe(groupOf(templateOf(of("db-1"))));
    expect(groupOf(template)).not.toBe(groupOf(templateOf(pod("db-2", { app: "web" }))));
    expect(groupOfSlice({ cluster: "a", type: "Pods", publishedAt: "", ...template })).toBe(
      groupOf(template),
    );
    expect(identityOf(of("db-1"), ["10.1.0.5"], template)).toEqual({
      name: "db-1",
      addresses: ["10.1.0.5"],
      labels: { "statefulset.kubernetes.io/pod-name": "db-1" },
    });
  });

  it("are of the group of their slice, in whatever order an API server returns the fields of its ports", () => {
    const template = templateOf(pod("web-1", { app: "web" }));
    // kube-apiserver sorts the fields of custom resources.
    const ports = template.ports.map(({ name, port, protocol }) => ({ name, port, protocol }));
    expect(groupOfSlice({ cluster: "a", type: "Pods", publishedAt: "", ...template, ports })).toBe(
      groupOf(template),
    );
  });

  it("whose labels change are written with the difference to the slice that they are in, which says no less", () => {
    const labels = fc.dictionary(
      fc.constantFrom("app", "tier", "hash", "__proto__"),
      fc.constantFrom("1", "2"),
    );
    fc.assert(
      fc.property(labels, labels, (before, after) => {
        const template = templateOf(pod("web", before));
        const spec = { cluster: "a", type: "Pods", publishedAt: "", ...template } as const;
        const written = identityOf(pod("web", after), ["10.1.0.5"], template);
        expect(written === undefined ? written : labelsOfPod(spec, written)).toEqual(after);
      }),
    );
  });

  it("stay in their slice when their labels change, and leave it if it is of another pod or the difference is too large", () => {
    const homeIn = (it: Pod) => {
      const template = templateOf(it);
      return {
        group: groupOf(template),
        spec: { cluster: "a", type: "Pods", publishedAt: "", ...template },
      } as const;
    };
    const own = (it: Pod) => groupOf(templateOf(it));
    const [before, after] = [pod("web", { app: "web" }), pod("web", { app: "web", tier: "1" })];
    expect(homeOf(before, own(before), [])).toBe(own(before));
    expect(homeOf(after, own(after), [homeIn(before)])).toBe(own(before));
    expect(homeOf(after, own(after), [homeIn(before), homeIn(after)])).toBe(own(after));
    const account: Pod = { ...after, spec: { containers: [], ...after.spec, serviceAccountName: "other" } };
    expect(homeOf(account, own(account), [homeIn(before)])).toBe(own(account));
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`l${at}`, ""]));
    for (const [count, stays] of [
      [MAX_IDENTITY_POD_LABELS, true],
      [MAX_IDENTITY_POD_LABELS + 1, false],
    ] as const) {
      const [few, all] = [pod("web", {}), pod("web", many(count))];
      expect(homeOf(all, own(all), [homeIn(few)])).toBe(own(stays ? few : all));
      expect(homeOf(few, own(few), [homeIn(all)])).toBe(own(stays ? all : few));
    }
  });

  it("have the named ports of their containers and sidecars, and not of containers that only run before these", () => {
    const ports = (name: string) => [{ name, containerPort: 80 }];
    const { spec, ...rest } = pod("web", {});
    const initContainers = [
      { name: "proxy", restartPolicy: "Always" as const, ports: ports("proxy") },
      { name: "setup", ports: ports("setup") },
    ];
    const template = templateOf({ ...rest, spec: { containers: spec?.containers ?? [], initContainers } });
    expect(template.ports.map((it) => it.name)).toEqual(["http", "proxy"]);
  });

  it("that claim one address: it is of the newest that stays, and of none if that is not known", () => {
    const at = (second: number) => ({ creationTimestamp: `2026-01-01T00:00:0${second}Z` });
    const [old, young] = [pod("old", {}, at(1)), pod("young", {}, at(2))];
    const leaving = pod("leaving", {}, { ...at(3), deletionTimestamp: "2026-01-01T00:01:00Z" });
    const ended: Pod = { ...pod("ended", {}, at(4)), status: { phase: "Succeeded" } };
    expect(holderOf([young, old])).toBe(young);
    expect(holderOf([old, leaving, ended])).toBe(old);
    expect(holderOf([leaving])).toBe(leaving);
    expect(holderOf([old, pod("twin", {}, at(1))])).toBeUndefined();
  });
});

describe("slices of a group", () => {
  const pods = (...names: readonly number[]): IdentityPod[] =>
    names.map((it) => ({ name: `p${it}`, addresses: [`10.1.0.${it}`] }));
  /** The slices after a plan. */
  const after = (wanted: readonly IdentityPod[], slices: ReadonlyMap<string, readonly IdentityPod[]>) => {
    const { write, remove } = planSlices(GROUP, wanted, slices);
    const next = new Map(slices);
    for (const it of remove) next.delete(it);
    for (const it of write) next.set(it.name, it.entries);
    return { next, writes: write.length + remove.length };
  };

  it("change in one place when one pod comes, changes or goes", () => {
    const all = pods(...Array.from({ length: 40 }, (_, at) => at + 1));
    const { next } = after(all, new Map());
    expect(next.size).toBe(Math.ceil(40 / PODS_PER_SLICE));
    expect(after(all, next).writes).toBe(0);
    expect(after(all.slice(1), next).writes).toBe(1);
    expect(after([...all, ...pods(200)], next).writes).toBe(1);
    expect(after([...all.slice(1), { name: "p1", addresses: ["10.1.9.9"] }], next).writes).toBe(1);
    expect(after([], next).next.size).toBe(0);
  });

  it("have each pod once, are not too full and not too empty, whatever comes and goes", () => {
    const wish = fc.array(fc.integer({ min: 1, max: 120 }), { maxLength: 120 });
    fc.assert(
      fc.property(fc.array(wish, { minLength: 1, maxLength: 6 }), (wishes) => {
        let slices: ReadonlyMap<string, readonly IdentityPod[]> = new Map();
        for (const wished of wishes) {
          const wanted = pods(...new Set(wished));
          slices = after(wanted, slices).next;
          const names = [...slices.values()].flat().map((it) => it.name);
          expect(names.toSorted()).toEqual(wanted.map((it) => it.name).toSorted());
          expect([...slices.values()].every((it) => it.length > 0 && it.length <= PODS_PER_SLICE)).toBe(true);
          expect(slices.size).toBeLessThanOrEqual(2 * Math.ceil(wanted.length / PODS_PER_SLICE) + 1);
          expect(after(wanted, slices).writes).toBe(0);
        }
      }),
    );
  });
});
