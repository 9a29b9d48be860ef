import { area, del, get, given, patch, post, put, scenario, type Step } from "../scenario.ts";

const SERVICES = "/api/v1/namespaces/$ns/services";
const IT = `${SERVICES}/a`;
const ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";

const PORTS = [{ port: 80 }];
const service = (spec: object, name = "a"): object => ({
  metadata: { name },
  spec: { ports: PORTS, ...spec },
});
const merge = (spec: object, query = ""): Step => patch("merge", `${IT}${query}`, { spec });
const address = (name: string): object => ({
  metadata: { name, labels: { of: "$id" } },
  spec: { parentRef: { resource: "services", namespace: "$ns", name: "other" } },
});
/** On a real server nothing else gives addresses and ports back that the scenario names. */
const cleared = given(del(SERVICES));

const SINGLE = { ipFamilyPolicy: "SingleStack" };
const PREFER = { ipFamilyPolicy: "PreferDualStack" };
const REQUIRE = { ipFamilyPolicy: "RequireDualStack" };
const HEADLESS = { clusterIP: "None" };
const EXTERNAL = { type: "ExternalName", externalName: "www.example.com" };
const NODE_PORT = { type: "NodePort" };
const BALANCER = { type: "LoadBalancer" };
const LOCAL = { type: "LoadBalancer", externalTrafficPolicy: "Local" };

/** What a Service can be, without any address or port that it names itself. */
const STATES: Readonly<Record<string, object>> = {
  "a ClusterIP": {},
  "a dual-stack ClusterIP": REQUIRE,
  "an IPv6 ClusterIP": { ipFamilies: ["IPv6"] },
  "a headless Service": { ...HEADLESS, selector: { a: "b" } },
  "a headless Service without selector": HEADLESS,
  "an ExternalName": EXTERNAL,
  "a NodePort": NODE_PORT,
  "a LoadBalancer": BALANCER,
  "a local LoadBalancer": LOCAL,
};

/** What clients change. */
const CHANGES: readonly object[] = [
  { type: "ClusterIP" },
  NODE_PORT,
  BALANCER,
  LOCAL,
  EXTERNAL,
  { type: "ExternalName", externalName: "www.example.com", clusterIP: null, clusterIPs: null },
  SINGLE,
  PREFER,
  REQUIRE,
  { ...SINGLE, ipFamilies: ["IPv6"] },
  { ipFamilies: ["IPv6", "IPv4"], ...PREFER },
  { ipFamilies: ["IPv4", "IPv6"], ...REQUIRE },
  { ipFamilies: null },
  { ipFamilies: [] },
  { ipFamilyPolicy: null },
  { clusterIP: "None", clusterIPs: ["None"] },
  { clusterIP: "", clusterIPs: null },
  { clusterIP: "10.0.0.250" },
  { clusterIPs: ["10.0.0.250"] },
  { ports: [{ port: 80, nodePort: 0 }] },
  {
    ports: [
      { name: "x", port: 80 },
      { name: "y", port: 81 },
    ],
  },
  { ports: [] },
  { externalTrafficPolicy: "Local" },
  { externalTrafficPolicy: "Cluster" },
  { healthCheckNodePort: 0 },
  { internalTrafficPolicy: "Local" },
  { allocateLoadBalancerNodePorts: false },
  { loadBalancerClass: "example.com/lb" },
  { externalIPs: ["192.0.2.1"], externalTrafficPolicy: "Local" },
  { sessionAffinity: "ClientIP" },
  { selector: { c: "d" } },
];

/** Every change alone, each to a Service as it was made; the patch says no more than what changes. */
const patched = Object.entries(STATES).map(([what, spec]) =>
  scenario(`what may become of ${what}`, [
    CHANGES.flatMap((change, at) => [
      ...given(post(SERVICES, service(spec, `s${at}`))),
      patch("merge", `${SERVICES}/s${at}`, { spec: change }),
    ]),
    cleared,
  ]),
);

/** A client that knows nothing of what was allocated writes the whole spec again. */
const replaced = Object.entries(STATES).map(([what, spec]) =>
  scenario(`${what} is replaced by what does not name its addresses`, [
    Object.values(STATES).flatMap((next, at) => [
      ...given(post(SERVICES, service(spec, `s${at}`))),
      put(`${SERVICES}/s${at}`, service(next, `s${at}`)),
    ]),
    cleared,
  ]),
);

const created: readonly object[] = [
  {},
  SINGLE,
  PREFER,
  REQUIRE,
  { ipFamilies: ["IPv6"] },
  { ipFamilies: ["IPv6"], ...PREFER },
  { ipFamilies: ["IPv6", "IPv4"] },
  { ipFamilies: ["IPv6", "IPv4"], ...REQUIRE },
  { ipFamilies: ["IPv6", "IPv4"], ...SINGLE },
  { clusterIP: "10.0.0.131" },
  { clusterIPs: ["10.0.0.132"] },
  { clusterIP: "10.0.0.133", clusterIPs: ["10.0.0.133"] },
  { clusterIP: "10.0.0.134", clusterIPs: ["10.0.0.135"] },
  { clusterIP: "fd00::81" },
  { clusterIP: "fd00::82", ...PREFER },
  { clusterIP: "fd00::83", clusterIPs: ["fd00::83", "10.0.0.136"] },
  { clusterIP: "fd00::84", clusterIPs: ["fd00::84", "10.0.0.137"], ...PREFER },
  { clusterIP: "fd00::85", clusterIPs: ["fd00::85", "10.0.0.138"], ...SINGLE },
  { clusterIP: "fd00::86", ipFamilies: ["IPv4"] },
  { clusterIP: "10.0.0.139", ipFamilies: ["IPv4", "IPv6"], ...REQUIRE },
  { clusterIPs: ["10.0.0.140", "10.0.0.141"], clusterIP: "10.0.0.140", ...REQUIRE },
  { clusterIP: "10.0.0.0" },
  { clusterIP: "10.0.255.255" },
  { clusterIP: "10.1.0.1" },
  { clusterIP: "fd00::" },
  { clusterIP: "fd00::ffff" },
  { clusterIP: "10.0.0.1" },
  { clusterIP: "10.00.0.142" },
  { clusterIP: "FD00::87" },
  { ...HEADLESS, selector: { a: "b" } },
  { ...HEADLESS, selector: { a: "b" }, ...PREFER },
  HEADLESS,
  { ...HEADLESS, ...SINGLE },
  { ...HEADLESS, ipFamilies: ["IPv6"] },
  { ...HEADLESS, type: "NodePort" },
  { ...HEADLESS, ports: [] },
  EXTERNAL,
  { ...EXTERNAL, ...SINGLE },
  { ...EXTERNAL, clusterIP: "10.0.0.143" },
  { ...EXTERNAL, ports: [{ port: 80, nodePort: 30_041 }] },
  NODE_PORT,
  { type: "NodePort", ports: [{ port: 80, nodePort: 30_042 }] },
  { type: "NodePort", ports: [{ port: 80, nodePort: 29_999 }] },
  { type: "NodePort", ports: [{ port: 80, nodePort: 32_768 }] },
  {
    type: "NodePort",
    ports: [
      { name: "t", port: 80, nodePort: 30_043 },
      { name: "u", port: 80, nodePort: 30_043, protocol: "UDP" },
    ],
  },
  {
    type: "NodePort",
    ports: [
      { name: "t", port: 80, nodePort: 30_044 },
      { name: "u", port: 81, nodePort: 30_044 },
    ],
  },
  {
    type: "NodePort",
    ports: [
      { name: "t", port: 53 },
      { name: "u", port: 53, protocol: "UDP" },
    ],
  },
  { type: "ClusterIP", ports: [{ port: 80, nodePort: 30_045 }] },
  BALANCER,
  { ...BALANCER, allocateLoadBalancerNodePorts: false },
  { ...BALANCER, allocateLoadBalancerNodePorts: false, ports: [{ port: 80, nodePort: 30_046 }] },
  LOCAL,
  { ...LOCAL, healthCheckNodePort: 30_047 },
  { ...LOCAL, healthCheckNodePort: 1 },
  { ...LOCAL, healthCheckNodePort: 30_048, ports: [{ port: 80, nodePort: 30_048 }] },
  { ...BALANCER, healthCheckNodePort: 30_049 },
  { ...NODE_PORT, externalTrafficPolicy: "Local", healthCheckNodePort: 30_050 },
];

const named = (clusterIP: string, nodePort: number): object => ({
  type: "NodePort",
  clusterIP,
  ports: [{ port: 80, nodePort }],
});
const other = (spec: object): Step => post(SERVICES, service(spec, "b"));
const ports = (...nodePorts: readonly (readonly [number, string])[]): object[] =>
  nodePorts.map(([nodePort, protocol], at) => ({ name: `p${at}`, port: 80 + at, nodePort, protocol }));

/** Ports from here on are given by the server, which may give one again: no two servers do it alike. */
const FIRST_GIVEN = 30_086;

function withoutGivenPorts(body: unknown): unknown {
  return JSON.parse(JSON.stringify(body), (key, value: unknown) => {
    const isPort = key === "nodePort" || key === "healthCheckNodePort";
    return isPort && typeof value === "number" && value >= FIRST_GIVEN ? "given" : value;
  });
}

const all = area("allocators", [
  scenario("addresses and ports of new Services", [
    created.map((spec, at) => post(SERVICES, service(spec, `s${at}`))),
    cleared,
  ]),
  ...patched,
  ...replaced,
  scenario("addresses and ports in use are rejected before other errors", [
    given(post(SERVICES, service(named("10.0.0.151", 30_051)))),
    other({ clusterIP: "10.0.0.151" }),
    other({ clusterIP: "10.0.0.151", ports: [] }),
    other({ clusterIP: "10.0.0.151", sessionAffinity: "Never", ports: [{ port: 0 }] }),
    other({ type: "NodePort", ports: [{ port: 80, nodePort: 30_051 }] }),
    other({ type: "NodePort", clusterIP: "10.0.0.151", ports: [{ port: 80, nodePort: 30_051 }] }),
    other({ type: "NodePort", ports: [{ port: 0, nodePort: 30_051 }] }),
    other({ type: "NodePort", ports: ports([30_051, "TCP"], [30_051, "UDP"]) }),
    other({ type: "NodePort", ports: ports([30_052, "TCP"], [30_051, "TCP"]) }),
    other({ type: "NodePort", ports: ports([30_051, "TCP"], [1, "TCP"]) }),
    other({ ...LOCAL, healthCheckNodePort: 30_051 }),
    other({ clusterIP: "10.0.0.152", clusterIPs: ["10.0.0.152", "fd00::9f", "10.0.0.151"] }),
    other({ clusterIP: "10.1.0.1", sessionAffinity: "Never" }),
    post(SERVICES, service({ clusterIP: "10.0.0.151" }, "Not-a-name")),
    get(`${SERVICES}/b`),
    cleared,
  ]),
  scenario("rejected requests and dry runs allocate nothing", [
    post(`${SERVICES}?dryRun=All`, service(named("10.0.0.161", 30_061))),
    post(SERVICES, service({ ...named("10.0.0.161", 30_061), sessionAffinity: "Never" })),
    post(SERVICES, service(named("10.0.0.161", 30_061))),
    merge({ type: "ClusterIP", ports: [{ port: 80, nodePort: null }] }, "?dryRun=All"),
    other({ type: "NodePort", ports: [{ port: 80, nodePort: 30_061 }] }),
    del(`${IT}?dryRun=All`),
    other({ clusterIP: "10.0.0.161" }),
    given(del(IT)),
    other(named("10.0.0.161", 30_061)),
    cleared,
  ]),
  scenario("addresses and ports are released", [
    given(
      post(
        SERVICES,
        service({ ...named("10.0.0.171", 30_062), ...REQUIRE, clusterIPs: ["10.0.0.171", "fd00::91"] }),
      ),
    ),
    other({ clusterIP: "fd00::91" }),
    merge(SINGLE),
    other({ clusterIP: "fd00::91" }),
    merge(REQUIRE),
    merge({ type: "ClusterIP", ports: [{ port: 80, nodePort: null }] }),
    post(SERVICES, service({ type: "NodePort", ports: [{ port: 80, nodePort: 30_062 }] }, "c")),
    merge({ ...EXTERNAL, clusterIP: null, clusterIPs: null }),
    post(SERVICES, service({ clusterIP: "10.0.0.171" }, "d")),
    merge({ type: "ClusterIP", clusterIP: "10.0.0.171" }),
    merge({ type: "ClusterIP", clusterIP: "10.0.0.173" }),
    cleared,
  ]),
  scenario("each address of a Service has an IPAddress", [
    post(SERVICES, service({ ...REQUIRE, clusterIPs: ["10.0.0.181", "fd00::b1"], clusterIP: "10.0.0.181" })),
    get(`${ADDRESSES}/10.0.0.181`),
    get(`${ADDRESSES}/fd00::b1`),
    get(`${ADDRESSES}/10.0.0.181`, { accept: TABLE }),
    merge({ sessionAffinity: "ClientIP" }),
    get(`${ADDRESSES}/10.0.0.181`),
    merge(SINGLE),
    get(`${ADDRESSES}/fd00::b1`),
    merge({ ...EXTERNAL, clusterIP: null, clusterIPs: null }),
    get(`${ADDRESSES}/10.0.0.181`),
    post(`${SERVICES}?dryRun=All`, service({ clusterIP: "10.0.0.182" }, "b")),
    get(`${ADDRESSES}/10.0.0.182`),
    post(SERVICES, service({ clusterIP: "10.0.0.183", sessionAffinity: "Never" }, "b")),
    get(`${ADDRESSES}/10.0.0.183`),
    post(SERVICES, service({}, "given"), { name: "given" }),
    get(`${ADDRESSES}/$given.spec.clusterIP`),
    post(SERVICES, service({ clusterIP: "10.0.0.184" }, "c")),
    del(`${SERVICES}/c`),
    get(`${ADDRESSES}/10.0.0.184`),
    cleared,
  ]),
  scenario("an address that an IPAddress names is taken", [
    post(ADDRESSES, address("10.0.0.186")),
    post(SERVICES, service({ clusterIP: "10.0.0.186" })),
    del(`${ADDRESSES}/10.0.0.186`),
    post(SERVICES, service({ clusterIP: "10.0.0.186" })),
    post(ADDRESSES, address("10.0.0.186")),
    patch("merge", `${ADDRESSES}/10.0.0.186`, { spec: { parentRef: { name: "b" } } }),
    del(`${ADDRESSES}/10.0.0.186`),
    cleared,
  ]),
  scenario("node ports move between ports, and are shared by protocols", [
    given(post(SERVICES, service({ type: "NodePort", ports: ports([30_053, "TCP"]) }))),
    merge({ ports: ports([30_053, "TCP"], [30_053, "UDP"]) }),
    merge({ ports: ports([30_054, "TCP"], [30_053, "UDP"]) }),
    other({ type: "NodePort", ports: ports([30_053, "TCP"]) }),
    merge({ ports: ports([30_053, "TCP"], [30_054, "UDP"]) }),
    merge({ ports: ports([30_054, "UDP"]) }),
    merge({ ports: ports([30_053, "TCP"], [30_053, "TCP"]) }),
    merge({ ports: [{ name: "p0", port: 90, protocol: "UDP" }] }),
    other({ type: "NodePort", ports: ports([30_054, "UDP"]) }),
    cleared,
  ]),
  scenario("healthCheckNodePort follows externalTrafficPolicy", [
    post(SERVICES, service({ ...LOCAL, healthCheckNodePort: 30_055, clusterIP: "10.0.0.154" })),
    merge({ healthCheckNodePort: 30_056 }),
    merge({ healthCheckNodePort: 0 }),
    other({ type: "NodePort", ports: ports([30_055, "TCP"]) }),
    merge({ externalTrafficPolicy: "Cluster" }),
    merge({ externalTrafficPolicy: "Cluster", healthCheckNodePort: 0 }),
    other({ type: "NodePort", ports: ports([30_055, "TCP"]) }),
    merge({ externalTrafficPolicy: "Local", healthCheckNodePort: 30_055 }),
    merge({ externalTrafficPolicy: "Local", healthCheckNodePort: 30_056 }),
    merge({ type: "ClusterIP" }),
    cleared,
  ]),
  scenario("only the status changes through /status", [
    given(post(SERVICES, service({ ...BALANCER, clusterIP: "10.0.0.155" }))),
    patch("merge", `${IT}/status`, {
      metadata: { labels: { l: "1" }, annotations: { n: "1" } },
      spec: { clusterIP: "10.0.0.156" },
      status: {
        loadBalancer: { ingress: [{ ip: "198.51.100.1" }, { hostname: "lb.example.com", ports: PORTS }] },
      },
    }),
    patch("merge", `${IT}/status`, {
      status: { loadBalancer: { ingress: [{ ip: "x" }, { ip: "::ffff:1.2.3.4" }] } },
    }),
    patch("merge", IT, { status: { loadBalancer: {} }, spec: { type: "ClusterIP" } }),
    patch("merge", `${IT}/status`, { status: { loadBalancer: { ingress: [{ ip: "198.51.100.1" }] } } }),
    cleared,
  ]),
]);

export const scenarios = all.map((it) => ({
  ...it,
  steps: it.steps.map((step) => ({ ...step, view: withoutGivenPorts })),
}));
