import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRng } from "@fairlead/base/rng.ts";
import { CLASS, RCODE, TYPE } from "#wire/types.ts";
import { splitLabels } from "#wire/name.ts";
import { createResolver, failure, type Forward } from "./resolver.ts";
import { RecordTree } from "./tree.ts";

/** A server with its zones and its forwards, which answer with the domain of the source that was asked. */
function answererOf(
  zones: readonly string[],
  forwards: readonly string[],
): (name: string) => Promise<string | undefined> {
  const tree = new RecordTree();
  for (const origin of zones) tree.addZone({ origin, negativeTtl: 5, serial: 1 });
  const asked: string[] = [];
  const forward = (domain: string): Forward => ({
    domain,
    ask() {
      asked.push(domain);
      return { ...failure(RCODE.NOERROR), authoritative: true };
    },
  });
  const options = { tree, rng: seededRng(1), isReady: () => true, forwards: forwards.map(forward) };
  const resolve = createResolver(options);
  return async (name) => {
    const { authorities } = await resolve({ name, type: TYPE.A, class: CLASS.IN });
    return asked.pop() ?? authorities[0]?.name;
  };
}

/** The one with the most labels in common (RFC 1034, section 4.3.2), by comparing label by label. */
function innermost(name: string, domains: readonly string[]): string | undefined {
  const labels = splitLabels(name);
  return domains
    .filter((it) => {
      const own = splitLabels(it);
      return own.length <= labels.length && own.every((one, at) => one === labels.at(at - own.length));
    })
    .toSorted((a, b) => splitLabels(b).length - splitLabels(a).length)[0];
}

const domain = fc
  .array(fc.constantFrom("a", "b", "ab", "z", "clusterset"), { minLength: 1, maxLength: 4 })
  .map((labels) => `${labels.join(".")}.`);

describe("zones and forwarded domains inside of each other", () => {
  it.each([
    ["x.clusterset.local.", "clusterset.local."],
    ["x.tm.clusterset.local.", "tm.clusterset.local."],
    ["x.a.tm.clusterset.local.", "a.tm.clusterset.local."],
    // The domain that is longer as text, or comes first by its letters, is not the inner one.
    ["x.zclusterset.local.", "local."],
    ["x.atm.clusterset.local.", "clusterset.local."],
    ["X.TM.ClusterSet.Local.", "tm.clusterset.local."],
    ["x.example.", undefined],
  ])("leave %s to %s, in whatever order they are named", async (name, expected) => {
    const [zones, forwards] = [
      ["clusterset.local.", "a.tm.clusterset.local."],
      ["local.", "tm.clusterset.local."],
    ];
    for (const turned of [false, true]) {
      const order = (of: string[]): string[] => (turned ? of.toReversed() : of);
      expect(await answererOf(order(zones), order(forwards))(name)).toBe(expected);
      expect(await answererOf(order(forwards), order(zones))(name)).toBe(expected);
    }
  });

  it("are asked for the names of the innermost one", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(domain, { minLength: 1, maxLength: 6 }),
        fc.nat(6),
        domain,
        async (domains, at, name) => {
          const answerer = answererOf(domains.slice(0, at), domains.slice(at));
          expect(await answerer(name)).toBe(innermost(name, domains));
        },
      ),
    );
  });
});
