import { PolicyDraft } from "@fairlead/fleet/dataplane/policy/policy-draft.ts";
import { compilePolicy, type PolicyKind } from "@fairlead/fleet/policy/compile/compile.ts";
import { Enforced } from "@fairlead/fleet/policy/enforced.ts";
import { Resolver } from "@fairlead/fleet/policy/resolver/resolver.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { numbered } from "./measure.ts";
import type { Decoder } from "./rows.ts";

/** As long as an object of an API server may be. */
const POLICY = 1_500_000;

/** The items of a list of a policy, as JSON. */
type List = (at: number) => string;
type Lists = Readonly<Record<string, List>>;

/** The place of each list in a spec, whose lists are filled as wanted. */
interface Shape {
  readonly kind: PolicyKind;
  readonly lists: Lists;
  readonly spec: (of: (list: string) => string) => string;
}

const address = (at: number): string =>
  `${1 + (at % 200)}.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`;
const labels = (at: number): string => `{"matchLabels":{"app":"a${at}"}}`;
const expression = (at: number): string => `{"key":"k${at}","operator":"Exists"}`;
/** No two are neighbours. */
const port = (at: number): number => 1 + ((at * 2) % 65_000);

const SHAPES: readonly Shape[] = [
  {
    kind: "NetworkPolicy",
    lists: {
      CIDRs: (at) => `{"ipBlock":{"cidr":"${address(at)}/32"}}`,
      "CIDRs with an exception": (at) =>
        `{"ipBlock":{"cidr":"${at % 224}.0.0.0/8","except":["${at % 224}.1.0.0/16"]}}`,
      selectors: (at) => `{"podSelector":${labels(at)}}`,
      exceptions: (at) => `"10.${at % 250}.0.0/16"`,
      "port numbers": (at) => `{"port":${port(at)}}`,
      "port ranges": (at) => `{"port":${port(at)},"endPort":${port(at) + 1},"protocol":"UDP"}`,
      "port names": (at) => `{"port":"p${at}"}`,
      rules: (at) => `{"from":[{"ipBlock":{"cidr":"${address(at)}/32"}}],"ports":[{"port":${port(at)}}]}`,
      "rules for all ports": (at) => `{"from":[{"podSelector":${labels(at)}}]}`,
      subjects: expression,
      values: (at) => `"v${at}"`,
    },
    spec: (of) => `{
      "podSelector":{"matchExpressions":[${of("subjects")}]},"policyTypes":["Ingress","Egress"],
      "ingress":[
        {"from":[${[of("CIDRs"), of("CIDRs with an exception"), of("selectors")].filter(Boolean).join()}],
         "ports":[${[of("port numbers"), of("port ranges"), of("port names")].filter(Boolean).join()}]}
        ${[of("rules"), of("rules for all ports")]
          .filter(Boolean)
          .map((it) => `,${it}`)
          .join("")}],
      "egress":[
        {"to":[{"ipBlock":{"cidr":"10.0.0.0/8","except":[${of("exceptions")}]}},
               {"podSelector":{"matchExpressions":[{"key":"app","operator":"NotIn","values":["v",${of("values") || `"w"`}]}]}}]}]}`,
  },
  {
    kind: "CiliumNetworkPolicy",
    lists: {
      fromEndpoints: labels,
      fromCIDR: (at) => `"${address(at)}"`,
      fromCIDRSet: (at) => `{"cidr":"${at % 224}.0.0.0/8","except":["${at % 224}.1.0.0/16"]}`,
      toNodes: labels,
      toFQDNs: (at) => `{"matchName":"n${at}.example.com"}`,
      fromEntities: (at) => `"${["world", "cluster", "host"][at % 3]}"`,
      toServices: (at) => `{"k8sService":{"serviceName":"s${at}"}}`,
      toPorts: (at) => `{"ports":[{"port":"${port(at)}"}]}`,
      ports: (at) => `{"port":"${at % 2 === 0 ? `p${at}` : port(at)}","protocol":"ANY"}`,
      dns: (at) => `{"matchPattern":"*.d${at}.example.com"}`,
      "entries with dns": (at) =>
        `{"ports":[{"port":"53"}],"rules":{"dns":[{"matchName":"d${at}.example.com"}]}}`,
      icmps: (at) => `{"fields":[{"type":${at % 256}}]}`,
      denies: (at) => `{"fromCIDR":["${address(at)}"],"toPorts":[{"ports":[{"port":"${port(at)}"}]}]}`,
      specs: (at) => `{"endpointSelector":{},"ingress":[{"fromCIDR":["${address(at)}"]}]}`,
    },
    spec: (of) => `{"endpointSelector":{},
      "ingress":[
        {"fromEndpoints":[${of("fromEndpoints")}],"toPorts":[${[of("toPorts"), `{"ports":[{"port":"80"}${of("ports") && `,${of("ports")}`}]}`].filter(Boolean).join()}]},
        {"fromCIDR":[${of("fromCIDR")}],"icmps":[${of("icmps")}]},
        {"fromCIDRSet":[${of("fromCIDRSet")}],"toPorts":[{"ports":[{"port":"80"}${of("ports") && `,${of("ports")}`}]}]},
        {"fromEntities":[${of("fromEntities")}],"toPorts":[{"ports":[{"port":"80"}${of("ports") && `,${of("ports")}`}]}]}],
      "ingressDeny":[${of("denies")}],
      "egress":[
        {"toFQDNs":[${of("toFQDNs")}],"toPorts":[{"ports":[{"port":"53"}],"rules":{"dns":[{"matchPattern":"*"}${of("dns") && `,${of("dns")}`}]}}${of("entries with dns") && `,${of("entries with dns")}`}]},
        {"toServices":[${of("toServices")}]},{"toNodes":[${of("toNodes")}]}]}`,
  },
  {
    kind: "ClusterNetworkPolicy",
    lists: {
      peers: (at) => `{"networks":["${address(at)}/32"]}`,
      selectors: (at) => `{"namespaces":${labels(at)}}`,
      nodes: (at) => `{"nodes":${labels(at)}}`,
      networks: (at) => `"${address(at)}/32"`,
      domainNames: (at) => `"d${at}.example.com"`,
      protocols: (at) => `{"tcp":{"destinationPort":{"number":${port(at)}}}}`,
      names: (at) => `{"destinationNamedPort":"p${at}"}`,
      rules: (at) =>
        `{"action":"Deny","to":[{"networks":["${address(at)}/32"]}],"protocols":[{"udp":{"destinationPort":{"number":${port(at)}}}}]}`,
    },
    spec: (of) => {
      const protocols = `[{"sctp":{}}${["protocols", "names"].map((it) => of(it) && `,${of(it)}`).join("")}]`;
      const peers = ["peers", "selectors", "nodes"].map((it) => of(it) && `,${of(it)}`).join("");
      return `{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"egress":[
        {"action":"Pass","to":[{"networks":["10.0.0.0/8"${of("networks") && `,${of("networks")}`}]}${peers}],"protocols":${protocols}},
        {"action":"Accept","to":[{"domainNames":["a.example.com"${of("domainNames") && `,${of("domainNames")}`}]}],"protocols":${protocols}}
        ${of("rules") && `,${of("rules")}`}]}`;
    },
  },
];

function jsonOf({ lists, spec, kind }: Shape, filled: readonly string[], length: number): string {
  const texts = new Map(
    filled.map((it) => [it, numbered(lists[it] ?? String, length / filled.length)] as const),
  );
  const own = spec((it) => texts.get(it) ?? "");
  const specs = texts.get("specs");
  return `{"metadata":{"name":"p"${kind === "ClusterNetworkPolicy" ? "" : `,"namespace":"shop"`}},"spec":${own}${specs === undefined ? "" : `,"specs":[${specs}]`}}`;
}

const SETTINGS = { cluster: "a", isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };

/** What a node makes of a policy that selects one of its pods: its share of the table, and what answers questions about flows. */
function enforce(kind: PolicyKind, text: string): PolicyDraft {
  const resolver = new Resolver({ cluster: "a", node: "n" });
  resolver.upsertNamespace({ cluster: "a", name: "shop", labels: {} });
  const pod = { cluster: "a", namespace: "shop", labels: { app: "v" }, serviceAccount: "default", ports: [] };
  resolver.upsertPod({ ...pod, name: "pod", node: "n", addresses: [parseAddress("10.0.0.1")] });
  const object = JSON.parse(text) as KubeObject;
  const { policies } = compilePolicy(kind, object, SETTINGS, { cidrGroups: [], services: [] });
  for (const it of policies) resolver.upsertPolicy(it);
  const changes = resolver.take();
  const draft = new PolicyDraft();
  draft.apply(changes);
  new Enforced().apply(changes);
  return draft;
}

export interface PolicyRow extends Decoder {
  /** Two lists of a kind whose lists the API server bounds. */
  readonly isSlow: boolean;
}

/** Each list of each kind, and each two of a kind. */
export const POLICIES: readonly PolicyRow[] = SHAPES.flatMap((shape) => {
  const names = Object.keys(shape.lists);
  const pairs = names.flatMap((it, at) => names.slice(at + 1).map((other) => [it, other]));
  return [...names.map((it) => [it]), ...pairs].map((filled): PolicyRow => ({
    isSlow: filled.length > 1 && shape.kind !== "NetworkPolicy",
    name: `${shape.kind}: ${filled.join(" and ")}`,
    limit: POLICY,
    make: (length) => jsonOf(shape, filled, length),
    run: (text) => enforce(shape.kind, String(text)),
  }));
});
