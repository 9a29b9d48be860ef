import { describe, expect, it } from "vitest";
import { CUT_OFF_ANNOTATION, REFUSED_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { cutLinks, describeLink, refusedBy } from "./links.ts";
import type { ClusterPath, TunnelStatus } from "./paths.ts";

const BOTH = new Set(["a", "b"]);
const tunnel = (path: TunnelStatus["path"]): TunnelStatus => ({ from: "a-0", to: "b-0", path, keyEpoch: 1 });
const path = (...tunnels: TunnelStatus[]): ClusterPath => ({ from: "a", to: "b", network: "site", tunnels });
const lease = (cutOff: string) => ({
  metadata: { namespace: mailboxOf("a"), name: "a", annotations: { [CUT_OFF_ANNOTATION]: cutOff } },
});

describe("a link between two members", () => {
  it("is cut if no endpoint answers any more", () => {
    const links = cutLinks([lease("b,unknown")], [], BOTH);
    expect(links).toEqual([{ from: "a", to: "b", by: "endpoints" }]);
    expect(links.map((it) => describeLink(it))[0]).toMatch(/^a to b: .* the link between them is cut; check/);
  });

  it("is cut if all tunnels are reported, and none is answered", () => {
    const cut = cutLinks([], [path(tunnel("none"), tunnel("none"))], BOTH);
    expect(cut).toEqual([{ from: "a", to: "b", by: "tunnels" }]);
    expect(cutLinks([], [path(tunnel("none"), tunnel("relay")), path()], BOTH)).toEqual([]);
  });

  it("is not judged by the last word of a member that is lost", () => {
    expect(cutLinks([lease("b")], [path(tunnel("none"))], new Set(["b"]))).toEqual([]);
    expect(cutLinks([lease("b")], [path(tunnel("none"))], new Set(["a"]))).toEqual([]);
  });
});

it("members name services that refuse them, each once, and lost members none", () => {
  const of = (name: string, said: string) => ({
    metadata: { namespace: mailboxOf(name), name, annotations: { [REFUSED_ANNOTATION]: said } },
  });
  const leases = [of("a", "b/work/hello,b/work/hello"), of("b", "a/work/hello"), of("c", "b/work/hello")];
  const found = refusedBy(leases, BOTH);
  expect([...found]).toEqual([
    ["b/work/hello", ["a"]],
    ["a/work/hello", ["b"]],
  ]);
});
