import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ConfigMap } from "@fairlead/kube/api/core/v1/types.ts";
import { parseCorefile, zoneOf } from "./corefile.ts";
import { AKS, EKS, K3S, KUBEADM, NODE_LOCAL } from "./corefiles.fake.ts";
import { type DnsObjects, planDns, ZONE_ANNOTATION } from "./plan.ts";
import { type Stanza, withoutStanza, withStanza } from "./stanza.ts";

const stanza: Stanza = { zones: ["clusterset.local"], addresses: ["10.96.1.2"] };
const wide: Stanza = {
  ...stanza,
  zones: ["clusterset.local", "fleetboard.local", "112.10.in-addr.arpa"],
};
const none: DnsObjects = {
  coredns: undefined,
  custom: undefined,
  kubeDns: undefined,
  nodeLocal: undefined,
  service: undefined,
};
const map = (data: Record<string, string>, annotations: Record<string, string> = {}): ConfigMap => ({
  metadata: { name: "any", namespace: "kube-system", annotations },
  data,
});
const coredns = (text: string): DnsObjects => ({ ...none, coredns: map({ Corefile: text }) });
const BLOCK = `# fairlead begin: managed by "fairlead dns setup"; remove with "fairlead dns setup --undo"
clusterset.local:53 {
    errors
    cache 30
    forward . 10.96.1.2
}
# fairlead end`;

describe("a Corefile", () => {
  it.each([
    ["kubeadm", KUBEADM, [["."]]],
    ["k3s", K3S, [["."]]],
    ["AKS", AKS, [["."]]],
    ["EKS", EKS, [["."]]],
    ["NodeLocal", NODE_LOCAL, [["cluster.local"], ["in-addr.arpa", "ip6.arpa"], ["."]]],
  ])("of %s is read by its blocks", (_, text, zones) => {
    expect(parseCorefile(text).blocks.map((it) => it.keys.map(zoneOf))).toEqual(zones);
  });

  it("may have snippets, variables, quotes, comments, and names on several lines", () => {
    const text = `(common) {\n  errors\n}\n# a comment {\na.example:53,\nb.example {\n  import common\n  file "a b {" # not a brace\n  log {$LEVEL}\n}\n`;
    expect(parseCorefile(text)).toEqual({
      imports: [],
      blocks: [
        { keys: ["(common)"], directives: [{ name: "errors", args: [] }], line: 1 },
        {
          keys: ["a.example:53", "b.example"],
          directives: [
            { name: "import", args: ["common"] },
            { name: "file", args: ["a b {"] },
            { name: "log", args: ["{$LEVEL}"] },
          ],
          line: 5,
        },
      ],
    });
  });

  it.each([
    ["without braces", ".:53\nerrors\n", 1],
    ["that does not end", ". {\n errors\n", 1],
    ["with a brace too many", ". {\n errors\n}\n}\n", 4],
    ["on one line", ". { errors }\n", 1],
    ["whose inner block is on one line", ". {\n health { lameduck 5s }\n}\n", 2],
    ["with a quotation mark that does not end", '. {\n file "a\n', 2],
    ["that has no name", "{\n errors\n}\n", 1],
  ])("%s is refused with its line", (_, text, line) => {
    expect(() => parseCorefile(text)).toThrow(new RegExp(`^line ${line} of the Corefile`));
  });
});

describe("the block for the cluster set", () => {
  it.each([
    ["kubeadm", KUBEADM],
    ["EKS, whose last line does not end", EKS],
    ["NodeLocal", NODE_LOCAL],
  ])("is appended to the Corefile of %s, and removed without a trace", (_, text) => {
    const after = withStanza(text, stanza);
    expect(after.startsWith(text)).toBe(true);
    expect(parseCorefile(after).blocks).toHaveLength(parseCorefile(text).blocks.length + 1);
    expect(withoutStanza(after)).toBe(text);
    expect(withStanza(after, stanza)).toBe(after);
  });

  it("takes its port and the addresses that it listens on from the block that pods ask", () => {
    expect(withStanza(NODE_LOCAL, stanza)).toContain(
      "    bind 169.254.20.10 10.96.0.10\n    forward . 10.96.1.2\n",
    );
    expect(withStanza(KUBEADM.replace(".:53", "dns://.:1053"), stanza)).toContain("clusterset.local:1053 {");
  });

  it("is removed with the comment of an older version, too", () => {
    const older = withStanza(KUBEADM, stanza).replace(
      /(fairlead begin:).*/,
      "$1 written by an older version",
    );
    expect(withoutStanza(older)).toBe(KUBEADM);
  });

  it("is replaced where it has other addresses, also in the middle of a file", () => {
    const before = `${withStanza(KUBEADM, stanza)}example.org {\n    errors\n}\n`;
    const after = withStanza(before, { ...stanza, addresses: ["10.96.1.3", "fd00::3"] });
    expect(after).toContain("forward . 10.96.1.3 fd00::3");
    expect(after).not.toContain("10.96.1.2");
    expect(withoutStanza(after)).toBe(`${KUBEADM}example.org {\n    errors\n}\n`);
  });

  it("never changes the text around the block", () => {
    const line = fc.stringMatching(/^[a-z0-9 .#]{0,20}$/);
    const body = fc
      .array(line.filter((it) => !it.includes("import")))
      .map((lines) => `. {\n${lines.map((it) => ` x${it}\n`).join("")}}`);
    fc.assert(
      fc.property(body, fc.constantFrom("", "\n", "\n\n", "\n# end"), (text, end) => {
        const after = withStanza(text + end, stanza);
        expect(withoutStanza(after)).toBe(text + end);
        expect(parseCorefile(after).blocks[0]).toEqual(parseCorefile(text).blocks[0]);
      }),
    );
  });

  it("has all zones in one block", () => {
    expect(withStanza(NODE_LOCAL, wide)).toContain(
      "\nclusterset.local:53 fleetboard.local:53 112.10.in-addr.arpa:53 {\n",
    );
  });

  it("is refused if Fleetboard's own block has its zone, until the zone is left out", () => {
    const text = `${KUBEADM}fleetboard.local:53 {\n    forward . 10.96.0.11\n}\n`;
    expect(() => withStanza(text, wide)).toThrow(
      /already has fleetboard.local.*leave the zone out by a flag/,
    );
    expect(withoutStanza(withStanza(text, stanza))).toBe(text);
  });

  it("is refused if another block has the same zone", () => {
    const text = `${KUBEADM}ClusterSet.Local.:53 {\n    forward . 10.0.0.1\n}\n`;
    expect(() => withStanza(text, stanza)).toThrow(/line 24 of the Corefile already has clusterset.local/);
  });
});

describe("the plan for a cluster's DNS", () => {
  it("adds a block to the Corefile of kubeadm and kind, whose servers take it by themselves", () => {
    expect(planDns(coredns(KUBEADM), stanza)).toEqual({
      flavour: "coredns",
      zones: ["clusterset.local"],
      edits: [{ configMap: "coredns", key: "Corefile", before: KUBEADM, after: `${KUBEADM}${BLOCK}\n` }],
      reloads: true,
      hints: [],
    });
  });

  it("restarts CoreDNS if the Corefile has no reload plugin", () => {
    expect(planDns(coredns(KUBEADM.replace("    reload\n", "")), stanza).reloads).toBe(false);
  });

  it.each([
    ["k3s", K3S],
    ["AKS", AKS],
  ])("adds a file next to the Corefile of %s, whose Corefile the distribution would restore", (_, text) => {
    expect(planDns(coredns(text), stanza)).toMatchObject({
      flavour: "coredns-custom",
      edits: [
        { configMap: "coredns-custom", key: "fairlead.server", before: undefined, after: `${BLOCK}\n` },
      ],
    });
  });

  it("refuses a zone that another custom file has", () => {
    const custom = map({ "other.server": "clusterset.local {\n    forward . 10.0.0.1\n}\n" });
    expect(() => planDns({ ...coredns(K3S), custom }, stanza)).toThrow(/already has clusterset.local/);
  });

  it("adds the zone to caches on nodes too, which forward names outside the cluster domain elsewhere", () => {
    const { edits } = planDns({ ...coredns(KUBEADM), nodeLocal: map({ Corefile: NODE_LOCAL }) }, stanza);
    expect(edits.map((it) => it.configMap)).toEqual(["coredns", "node-local-dns"]);
  });

  it("warns of the add-on of EKS, which may put its Corefile back", () => {
    const objects = coredns(EKS);
    const labels = { "eks.amazonaws.com/component": "coredns" };
    const marked = { ...map({ Corefile: EKS }), metadata: { name: "coredns", labels } };
    expect(planDns({ ...objects, coredns: marked }, stanza).hints.join("")).toContain("add-on of EKS");
  });

  it("adds a stub domain to kube-dns and keeps the existing ones", () => {
    const kubeDns = map({ stubDomains: '{"example.org":["10.0.0.1"]}' });
    expect(planDns({ ...none, kubeDns }, stanza)).toMatchObject({
      flavour: "kube-dns",
      edits: [
        {
          configMap: "kube-dns",
          key: "stubDomains",
          after: '{"example.org":["10.0.0.1"],"clusterset.local":["10.96.1.2"]}',
        },
      ],
    });
  });

  it("adds each zone to kube-dns, unless the user has one of them there", () => {
    const { edits } = planDns({ ...none, kubeDns: map({}) }, wide);
    expect(JSON.parse(edits[0]?.after ?? "")).toEqual(
      Object.fromEntries(wide.zones.map((it) => [it, ["10.96.1.2"]])),
    );
    const kubeDns = map({ stubDomains: '{"fleetboard.local":["10.96.0.11"]}' });
    expect(() => planDns({ ...none, kubeDns }, wide)).toThrow(/already has fleetboard.local/);
  });

  it("takes its stub domain away again, and the value with the last one", () => {
    const ours = { [ZONE_ANNOTATION]: "clusterset.local" };
    const both = map({ stubDomains: '{"example.org":["10.0.0.1"],"clusterset.local":["10.96.1.2"]}' }, ours);
    expect(planDns({ ...none, kubeDns: both }, undefined).edits[0]?.after).toBe(
      '{"example.org":["10.0.0.1"]}',
    );
    const one = map({ stubDomains: '{"clusterset.local":["10.96.1.2"]}' }, ours);
    expect(planDns({ ...none, kubeDns: one }, undefined).edits[0]?.after).toBeUndefined();
    expect(
      planDns({ ...none, kubeDns: map({ stubDomains: one.data?.["stubDomains"] ?? "" }) }, undefined).edits,
    ).toEqual([]);
  });

  it.each([
    ["kubeadm", coredns(KUBEADM)],
    ["k3s", coredns(K3S)],
    ["EKS", coredns(EKS)],
    ["NodeLocal", { ...coredns(KUBEADM), nodeLocal: map({ Corefile: NODE_LOCAL }) }],
    ["kube-dns", { ...none, kubeDns: map({}) }],
  ])("has nothing left to do once it is done, and nothing once it is undone: %s", (_, objects) => {
    const older = carryOut(objects, planDns(objects, stanza));
    expect(planDns(older, stanza).edits).toEqual([]);
    const done = carryOut(older, planDns(older, wide));
    expect(planDns(done, wide).edits).toEqual([]);
    const undone = carryOut(done, planDns(done, undefined));
    expect(planDns(undone, undefined).edits).toEqual([]);
    expect(undone.coredns?.data).toEqual(objects.coredns?.data);
    expect(undone.nodeLocal?.data).toEqual(objects.nodeLocal?.data);
    expect(undone.kubeDns?.data ?? {}).toEqual(objects.kubeDns?.data ?? {});
  });

  it("lists what it looked for if a cluster has no known DNS", () => {
    expect(() => planDns(none, stanza)).toThrow(/no ConfigMap "coredns"/);
  });
});

/** The objects as they are once a plan is carried out. */
function carryOut(objects: DnsObjects, { edits, zones }: ReturnType<typeof planDns>): DnsObjects {
  const names = {
    coredns: "coredns",
    "coredns-custom": "custom",
    "kube-dns": "kubeDns",
    "node-local-dns": "nodeLocal",
  } as const;
  let now = objects;
  for (const { configMap, key, after } of edits) {
    const field = names[configMap as keyof typeof names];
    const { [key]: _, ...others } = now[field]?.data ?? {};
    const data = after === undefined ? others : { ...others, [key]: after };
    now = { ...now, [field]: map(data, after === undefined ? {} : { [ZONE_ANNOTATION]: zones.join(",") }) };
  }
  return now;
}
