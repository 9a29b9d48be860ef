import { createSecretKey } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { type Contribution, RecordTree } from "@fairlead/dns/tree.ts";
import { encodeControl, NO_COOKIE, openControl } from "@fairlead/fleet/dataplane/control/datagram.ts";
import { PolicyDraft } from "@fairlead/fleet/dataplane/policy/policy-draft.ts";
import { DesiredElements } from "@fairlead/fleet/dataplane/service-proxy/desired.ts";
import { compilePolicy } from "@fairlead/fleet/policy/compile/compile.ts";
import { Enforced } from "@fairlead/fleet/policy/enforced.ts";
import { Resolver } from "@fairlead/fleet/policy/resolver/resolver.ts";
import { RegistrationTable } from "@fairlead/fleet/relay/registration-table.ts";
import { type Census, takeCensus } from "../support/census.ts";

/** Objects that come and go in a round. */
const OBJECTS = 100;
/** Of pods: more than the bound of what is kept of those that are gone. */
const PODS = 300;
/** In the first round, what has a bound gets full. */
const ROUNDS = 3;

const SETTINGS = { cluster: "a", isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };
const OTHERS = { cidrGroups: [], services: [] };

let census: Census;
beforeAll(() => {
  census = takeCensus();
});
afterAll(() => census[Symbol.dispose]());

/** Creates objects of ever new names, and deletes them again. */
type Round = (names: readonly number[]) => void;

const KINDS: Readonly<Record<string, () => Round>> = {
  "pods, their namespaces and policies": () => {
    const resolver = new Resolver({ cluster: "a", node: "n" });
    const [draft, enforced] = [new PolicyDraft(), new Enforced()];
    const take = (): void => {
      const changes = resolver.take();
      draft.apply(changes);
      draft.table.takeChanges();
      enforced.apply(changes);
    };
    return (names) => {
      const keys: string[] = [];
      for (const at of names) {
        const namespace = `ns-${at}`;
        resolver.upsertNamespace({ cluster: "a", name: namespace, labels: { team: `t${at}` } });
        resolver.upsertPod({
          cluster: "a",
          namespace,
          name: "p",
          labels: { app: `a${at}` },
          serviceAccount: "default",
          addresses: [0x0a_00_00_00 + at],
          ports: [{ name: `p${at}`, protocol: "TCP", port: 1 + (at % 60_000) }],
          node: "n",
        });
        if (at % 50 > 0) continue;
        const object = {
          metadata: { name: "p", namespace, uid: `u${at}` },
          spec: {
            podSelector: {},
            policyTypes: ["Ingress"],
            ingress: [
              {
                from: [{ podSelector: { matchLabels: { app: `a${at}` } } }],
                ports: [{ port: `p${at}` }],
              },
            ],
          },
        };
        for (const it of compilePolicy("NetworkPolicy", object, SETTINGS, OTHERS).policies) {
          resolver.upsertPolicy(it);
          keys.push(it.key);
        }
      }
      take();
      for (const key of keys) resolver.deletePolicy(key);
      for (const at of names) {
        resolver.deletePod("a", `ns-${at}`, "p");
        resolver.deleteNamespace("a", `ns-${at}`);
      }
      take();
    };
  },
  "Services in the proxy's tables": () => {
    const desired = new DesiredElements();
    return (names) => {
      for (const at of names)
        desired.set(`s${at}`, [{ set: "services-4", key: `10.0.0.1 . ${at}`, value: "v" }]);
      for (const at of names) desired.set(`s${at}`, []);
      desired.takeChanged();
    };
  },
  "names of DNS": () => {
    const tree = new RecordTree();
    tree.addZone({ origin: "zone.", negativeTtl: 5, serial: 1 });
    const of = (at: number): Contribution => ({
      records: [{ name: `a.s${at}.zone.`, class: 1, ttl: 5, data: { type: "A", address: at } }],
    });
    return (names) => {
      for (const at of names) {
        tree.put(`s${at}`, of(at));
        tree.putLazily({ owner: `l${at}`, name: `l${at}.zone.` }, () => of(at));
      }
      for (const at of names) {
        tree.remove(`s${at}`);
        tree.removeLazy({ owner: `l${at}`, name: `l${at}.zone.` });
      }
    };
  },
  "registrations at a relay": () => {
    const key = createSecretKey(Buffer.alloc(32));
    const clock = new FakeClock();
    const secret = new Uint8Array(32);
    const table = new RegistrationTable({ keyOf: () => key, exists: () => true, secret, clock });
    return (names) => {
      for (const name of names) {
        const [from, to] = [1 + (name % 1000), 0];
        const source = { address: `2001:db8::${name.toString(16)}`, port: 9 };
        const send = (cookie: Uint8Array) => {
          const nonce = new Uint8Array(16);
          const bytes = encodeControl({ kind: "register", from, to, epoch: 1, nonce, cookie }, key);
          return table.receive(bytes, { source, to, via: "::" });
        };
        const challenge = openControl(send(NO_COOKIE).answer ?? new Uint8Array(), key);
        if (challenge?.kind === "challenge") send(challenge.cookie);
      }
      expect(table.size).toBeGreaterThan(0);
      table.sweep(() => false);
    };
  },
};

it.each(Object.entries(KINDS))("%s leave nothing behind when they are gone", async (kind, start) => {
  const round = start();
  const objects = kind === "pods, their namespaces and policies" ? PODS : OBJECTS;
  let next = 0;
  const run = (): void => round(Array.from({ length: objects }, () => (next += 1)));
  run();
  const before = await census.entries();
  for (let at = 1; at < ROUNDS; at += 1) run();
  const grown = [...(await census.entries())].filter(
    ([line, entries]) => entries - (before.get(line) ?? 0) >= objects,
  );
  expect(grown).toEqual([]);
});
