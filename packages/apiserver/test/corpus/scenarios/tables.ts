import { area, del, given, patch, scenario } from "../scenario.ts";
import { cells, conditions, objectsOf, OURS, type State } from "../tables.ts";

const NODES = "/api/v1/nodes";
const SERVICES = "/api/v1/namespaces/$ns/services";
const SLICES = "/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices";
const ENDPOINTS = "/api/v1/namespaces/$ns/endpoints";
const CLAIMS = "/api/v1/namespaces/$ns/persistentvolumeclaims";
const VOLUMES = "/api/v1/persistentvolumes";
const INGRESSES = "/apis/networking.k8s.io/v1/namespaces/$ns/ingresses";
const SELECTED = "?labelSelector=example.com/of=$id";

const labels = (more: Readonly<Record<string, string>>): object => ({ labels: { ...OURS, ...more } });

const nodes: Readonly<Record<string, State>> = {
  bare: {},
  ready: {
    status: {
      ...conditions("Ready"),
      addresses: [
        { type: "Hostname", address: "h" },
        { type: "InternalIP", address: "192.0.2.1" },
        { type: "InternalIP", address: "192.0.2.2" },
        { type: "ExternalIP", address: "198.51.100.1" },
      ],
      nodeInfo: {
        kubeletVersion: "v1.36.0",
        osImage: "Linux",
        kernelVersion: "6.1",
        architecture: "amd64",
        containerRuntimeVersion: "containerd://2",
      },
    },
  },
  "not-ready": { status: { ...conditions("Ready=False"), nodeInfo: { architecture: "arm64" } } },
  unknown: { status: conditions("Ready=Unknown") },
  pressed: { status: conditions("MemoryPressure", "Ready") },
  cordoned: { body: { spec: { unschedulable: true } }, status: conditions("Ready") },
  "cordoned-unknown": { body: { spec: { unschedulable: true } } },
  roles: {
    metadata: labels({
      "node-role.kubernetes.io/worker": "",
      "node-role.kubernetes.io/control-plane": "",
      "kubernetes.io/role": "edge",
    }),
  },
  "roles-alike": { metadata: labels({ "node-role.kubernetes.io/edge": "", "kubernetes.io/role": "edge" }) },
  "no-roles": { metadata: labels({ "kubernetes.io/role": "" }) },
  deleted: { deleted: true, status: conditions("Ready") },
};

const ports = (...all: readonly number[]): object[] => all.map((port) => ({ name: `p${port}`, port }));
const many = (count: number): string[] => Array.from({ length: count }, (_, at) => `192.0.2.${at + 1}`);
const balanced = (...ingress: readonly object[]): object => ({ loadBalancer: { ingress } });

const services: Readonly<Record<string, State>> = {
  headless: { body: { spec: { clusterIP: "None", selector: { b: "2", a: "1" } } } },
  "headless-ports": { body: { spec: { clusterIP: "None", ports: ports(80, 443) } } },
  name: { body: { spec: { type: "ExternalName", externalName: "www.example.com" } } },
  "name-with-ports": {
    body: { spec: { type: "ExternalName", externalName: "www.example.com", ports: ports(80) } },
  },
  "external-ips": {
    body: { spec: { clusterIP: "10.0.0.101", ports: ports(80), externalIPs: ["192.0.2.9", "192.0.2.8"] } },
  },
  protocols: {
    body: {
      spec: {
        clusterIP: "10.0.0.102",
        ports: [
          { name: "t", port: 53 },
          { name: "u", port: 53, protocol: "UDP" },
          { name: "s", port: 53, protocol: "SCTP" },
        ],
      },
    },
  },
  "node-port": {
    body: { spec: { type: "NodePort", clusterIP: "10.0.0.103", ports: [{ port: 80, nodePort: 30063 }] } },
  },
  pending: {
    body: {
      spec: {
        type: "LoadBalancer",
        clusterIP: "10.0.0.104",
        allocateLoadBalancerNodePorts: false,
        ports: ports(80),
      },
    },
  },
};
const loadBalancer = (last: number, externalIPs: readonly string[] = []): object => ({
  spec: {
    type: "LoadBalancer",
    clusterIP: `10.0.0.${100 + last}`,
    allocateLoadBalancerNodePorts: false,
    ports: ports(80),
    externalIPs,
  },
});
const loadBalancers: Readonly<Record<string, State>> = {
  "one-ip": { body: loadBalancer(20), status: balanced({ ip: "198.51.100.1" }) },
  "two-ips": { body: loadBalancer(21), status: balanced({ ip: "198.51.100.2" }, { ip: "198.51.100.1" }) },
  "ip-and-name": {
    body: loadBalancer(22),
    status: balanced({ ip: "198.51.100.2", hostname: "lb.example.com" }),
  },
  hostname: {
    body: loadBalancer(23),
    status: balanced({ hostname: "a-long-name-of-a-load-balancer.region.example.com" }),
  },
  "pending-with-external": { body: loadBalancer(24, ["192.0.2.9"]) },
  "with-external": { body: loadBalancer(25, ["192.0.2.9"]), status: balanced({ ip: "198.51.100.1" }) },
};

const slice = (endpoints: readonly string[], slicePorts: readonly object[]): object => ({
  addressType: "IPv4",
  endpoints: endpoints.map((it) => ({ addresses: [it] })),
  ports: slicePorts,
});
const slices: Readonly<Record<string, State>> = {
  empty: { body: slice([], []) },
  one: { body: slice(many(1), ports(80)) },
  three: { body: slice(many(3), ports(80, 81, 82)) },
  four: { body: slice(many(4), ports(80, 81, 82, 83)) },
  ten: { body: slice(many(10), ports(80, 81, 82, 83, 84, 85)) },
  "port-without-number": { body: slice(many(1), [{ name: "http" }]) },
  "any-port": { body: slice(many(1), [{}]) },
  "several-addresses": {
    body: {
      addressType: "IPv4",
      endpoints: [{ addresses: many(2) }, { addresses: many(3) }],
      ports: ports(80),
    },
  },
  v6: {
    body: { addressType: "IPv6", endpoints: [{ addresses: ["2001:db8::1"] }], ports: ports(80) },
  },
};
const subset = (addresses: readonly string[], more: object): object => ({
  addresses: addresses.map((ip) => ({ ip })),
  ...more,
});
const endpoints: Readonly<Record<string, State>> = {
  empty: {},
  one: { body: { subsets: [subset(many(1), { ports: ports(80) })] } },
  four: { body: { subsets: [subset(many(4), { ports: ports(80) })] } },
  "two-ports": { body: { subsets: [subset(many(2), { ports: ports(80, 81) })] } },
  "two-subsets": {
    body: { subsets: [subset(many(1), { ports: ports(80) }), subset(["192.0.2.77"], { ports: ports(81) })] },
  },
  "without-ports": { body: { subsets: [subset(many(2), {})] } },
  "not-ready": { body: { subsets: [{ notReadyAddresses: [{ ip: "192.0.2.1" }], ports: ports(80) }] } },
  v6: { body: { subsets: [subset(["2001:db8::1"], { ports: ports(80) })] } },
};

const claim = (more: object = {}): object => ({
  spec: {
    accessModes: ["ReadWriteOnce", "ReadOnlyMany"],
    resources: { requests: { storage: "1Gi" } },
    ...more,
  },
});
const capacity = (storage: string): object => ({ capacity: { storage } });
const claims: Readonly<Record<string, State>> = {
  pending: { body: claim() },
  lost: { body: claim({ storageClassName: "fast" }), status: { phase: "Lost" } },
  "bound-without-volume": {
    body: claim(),
    status: { phase: "Bound", ...capacity("5Gi"), accessModes: ["ReadWriteMany"] },
  },
  bound: {
    body: claim({ volumeName: "v", storageClassName: "", volumeMode: "Block" }),
    status: { phase: "Bound", ...capacity("1024Mi"), accessModes: ["ReadWriteMany", "ReadWriteOnce"] },
  },
  annotated: {
    metadata: { annotations: { "volume.beta.kubernetes.io/storage-class": "old" } },
    body: claim(),
  },
  classed: { body: claim({ volumeAttributesClassName: "gold" }) },
  deleted: { body: claim(), deleted: true },
};
const volume = (more: object = {}): object => ({
  spec: {
    accessModes: ["ReadWriteOncePod"],
    capacity: { storage: "1Gi" },
    hostPath: { path: "/x" },
    ...more,
  },
});
const volumes: Readonly<Record<string, State>> = {
  pending: { body: volume() },
  available: { body: volume({ persistentVolumeReclaimPolicy: "Delete" }), status: { phase: "Available" } },
  bound: {
    body: volume({ claimRef: { namespace: "ns", name: "data" }, storageClassName: "slow" }),
    status: { phase: "Bound" },
  },
  failed: {
    body: volume({ volumeMode: "Block" }),
    status: { phase: "Failed", reason: "Broken", message: "m" },
  },
  annotated: {
    metadata: { annotations: { "volume.beta.kubernetes.io/storage-class": "old" } },
    body: volume(),
  },
  deleted: { body: volume(), deleted: true },
};

const backend = { service: { name: "s", port: { number: 80 } } };
const rule = (host?: string): object => ({
  ...(host === undefined ? {} : { host }),
  http: { paths: [{ path: "/", pathType: "Prefix", backend }] },
});
const ingress = (spec: object): object => ({ spec: { defaultBackend: backend, ...spec } });
const ingresses: Readonly<Record<string, State>> = {
  default: { body: ingress({}) },
  classed: { body: ingress({ ingressClassName: "example", tls: [{ hosts: ["a.example.com"] }] }) },
  "any-host": { body: ingress({ rules: [rule()] }) },
  hosts: { body: ingress({ rules: [rule("c.example.com"), rule("a.example.com"), rule("b.example.com")] }) },
  "more-hosts": {
    body: ingress({ rules: ["a", "b", "c", "d", "e"].map((it) => rule(`${it}.example.com`)) }),
  },
  "hosts-and-none": {
    body: ingress({ rules: [rule(), rule("a.example.com"), rule("b.example.com"), rule("c.example.com")] }),
  },
  "cut-after-none": {
    body: ingress({ rules: [rule(), ...["a", "b", "c", "d"].map((it) => rule(`${it}.example.com`))] }),
  },
  addresses: {
    body: ingress({}),
    status: balanced({ ip: "198.51.100.2" }, { ip: "198.51.100.1" }, { hostname: "lb.example.com" }),
  },
};
export const scenarios = area("tables", [
  scenario("nodes by conditions, roles and cordon", [
    objectsOf(NODES, nodes, "$id-"),
    cells(`${NODES}${SELECTED}`),
    given(patch("merge", `${NODES}/$id-deleted`, { metadata: { finalizers: null } })),
    given(del(`${NODES}${SELECTED}`)),
  ]),
  scenario("Services by type and addresses", [
    objectsOf(SERVICES, services),
    cells(SERVICES),
    given(del(SERVICES)),
  ]),
  scenario("load balancers by their addresses", [
    objectsOf(SERVICES, loadBalancers),
    cells(SERVICES),
    given(del(SERVICES)),
  ]),
  scenario("EndpointSlices and Endpoints with few and many addresses", [
    objectsOf(SLICES, slices),
    cells(SLICES),
    objectsOf(ENDPOINTS, endpoints),
    cells(ENDPOINTS),
  ]),
  scenario("claims by phase", [objectsOf(CLAIMS, claims), cells(CLAIMS)]),
  scenario("volumes by phase", [
    objectsOf(VOLUMES, volumes, "$id-"),
    cells(`${VOLUMES}${SELECTED}`),
    given(
      ...Object.keys(volumes).map((it) =>
        patch("merge", `${VOLUMES}/$id-${it}`, { metadata: { finalizers: null } }),
      ),
      del(`${VOLUMES}${SELECTED}`),
    ),
  ]),
  scenario("Ingresses by hosts and addresses", [objectsOf(INGRESSES, ingresses), cells(INGRESSES)]),
]);
