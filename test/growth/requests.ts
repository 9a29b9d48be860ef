import type { CallOptions } from "../../packages/apiserver/test/support.ts";
import { type Hostile, numbered, repeated } from "./measure.ts";
import { indexOfOneHash } from "./rows.ts";

/** Requests whose cost is that of everything they go through: the gate, admission, rules, the store, the answer. */

export interface Sent extends CallOptions {
  readonly method: string;
  readonly path: string;
}

export type HostileRequest = Hostile<Sent>;

/** Of a line of a request with all headers. */
const HEAD = 15_000;
const BODY = 1.5 * 1024 * 1024;

const NAMESPACED = "/api/v1/namespaces/default";
const MAPS = `${NAMESPACED}/configmaps`;
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";

function query(parameter: string, part: string, path = MAPS): HostileRequest {
  return {
    name: `${path.slice(NAMESPACED.length)} ${parameter} of ${JSON.stringify(part)}`,
    limit: HEAD,
    make: (length) => ({
      method: "GET",
      path: `${path}${path.includes("?") ? "&" : "?"}${parameter}=${encodeURIComponent(repeated(part, (length / encodeURIComponent(part).length) * part.length).slice(0, length))}`,
    }),
  };
}

const QUERIES: readonly (readonly [parameter: string, part: string])[] = [
  ["timeout", "1"],
  ["timeout", "1s"],
  ["timeoutSeconds", "1"],
  ["limit", "1"],
  ["continue", "a"],
  ["resourceVersion", "1"],
  ["resourceVersionMatch", "a"],
  ["sendInitialEvents", "a"],
  ["labelSelector", "a,"],
  ["labelSelector", "("],
  ["fieldSelector", " "],
  ["fieldSelector", "metadata.name=a,"],
  ["fieldSelector", "\\"],
  ["dryRun", "a"],
  ["fieldManager", "a"],
  ["fieldValidation", "a"],
  ["pretty", "a"],
  ["includeObject", "a"],
  ["unknown", "a"],
];

/** Others would begin. */
const REFUSED_BY_WATCHES: typeof QUERIES = [
  ["limit", "x"],
  ["continue", "a"],
  ["resourceVersion", "x"],
  ["resourceVersionMatch", "a"],
  ["sendInitialEvents", "a"],
  ["labelSelector", "("],
  ["fieldSelector", " "],
  ["fieldSelector", "\\"],
];

function header(name: string, part: string, before = ""): HostileRequest {
  return {
    name: `header ${name} of ${JSON.stringify(part)}`,
    limit: HEAD,
    make: (length) => ({
      method: "GET",
      path: "/version",
      anonymous: true,
      headers: { [name]: before + repeated(part, length) },
    }),
  };
}

const HEADERS: readonly HostileRequest[] = [
  header("Accept", "application/json;q=1,"),
  header("Accept", ";"),
  header("Accept-Encoding", "gzip,"),
  header("User-Agent", "Mozilla/"),
  header("Audit-ID", "a"),
  header("Impersonate-User", "a"),
  header("Impersonate-User", "system:serviceaccount:"),
  header("Impersonate-Extra-a", "%41", "x"),
  header("Authorization", "a", "Bearer "),
  header("Authorization", "a.", "Bearer "),
  header("Authorization", "e30.", "Bearer eyJhbGciOiJSUzI1NiJ9."),
  header("Authorization", "a", "Bearer abcdef."),
  header("Authorization", " ", "Bearer"),
  header("Content-Type", ";a"),
  header("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.QQ,"),
  header("Connection", "a,"),
  header("Cookie", "a=b;"),
];

interface Body {
  readonly name: string;
  readonly path: string;
  readonly method?: string;
  readonly type?: string;
  readonly limit?: number;
  readonly text: (length: number) => string;
}

const meta = '"metadata":{"name":"a"}';
const many =
  (make: (at: number) => string, before: string, after: string) =>
  (length: number): string =>
    before + numbered(make, length) + after;

const podWith = (inner: string): string =>
  `{${meta},"spec":{"containers":[{"name":"c","image":"i"}],${inner}}}`;
const deployment = (containers: string): string =>
  `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"grown"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[${containers}]}}}}`;
const env = (length: number): string =>
  deployment(`{"name":"c","image":"i","env":[${numbered((at) => `{"name":"E${at}","value":"v"}`, length)}]}`);

/** All are dry runs: what is stored is a matter of other tests. */
const BODIES: readonly Body[] = [
  { name: "data of a ConfigMap", path: MAPS, text: many((at) => `"k${at}":"v"`, `{${meta},"data":{`, "}}") },
  {
    name: "a ConfigMap with data that come again",
    path: MAPS,
    text: (length) =>
      `{${meta},"data":{${numbered((at) => `"k${at}":"v"`, length / 2)}},${numbered(() => '"data":{}', length / 2)}}`,
  },
  {
    name: "double keys under a long one",
    path: MAPS,
    text: (length) => `{"${"A".repeat(length / 2)}":{${numbered(() => '"a":1', length / 2)}},${meta}}`,
  },
  { name: "unknown fields", path: MAPS, text: many((at) => `"k${at}":1`, `{${meta},`, "}") },
  {
    name: "labels",
    path: MAPS,
    text: many((at) => `"k${at}":"v"`, '{"metadata":{"name":"a","labels":{', "}}}"),
  },
  {
    name: "malformed labels",
    path: MAPS,
    text: many((at) => `"-${at}":"-"`, '{"metadata":{"name":"a","labels":{', "}}}"),
  },
  {
    name: "labels like indexes of arrays, many to a hash",
    path: MAPS,
    text: many((at) => `"${indexOfOneHash(at)}":"v"`, '{"metadata":{"name":"a","labels":{', "}}}"),
  },
  {
    name: "annotations",
    path: MAPS,
    text: many((at) => `"k${at}":"v"`, '{"metadata":{"name":"a","annotations":{', "}}}"),
  },
  {
    name: "finalizers",
    path: MAPS,
    text: many((at) => `"x.io/f${at}"`, '{"metadata":{"name":"a","finalizers":[', "]}}"),
  },
  {
    name: "owners",
    path: MAPS,
    text: many(
      (at) => `{"apiVersion":"v1","kind":"Pod","name":"p${at}","uid":"u${at}"}`,
      '{"metadata":{"name":"a","ownerReferences":[',
      "]}}",
    ),
  },
  {
    name: "managers",
    path: MAPS,
    text: many(
      (at) =>
        `{"manager":"m${at}","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k${at}":{}}}}`,
      '{"metadata":{"name":"a","managedFields":[',
      "]}}",
    ),
  },
  { name: "a long name", path: MAPS, text: (length) => `{"metadata":{"name":"${"a.".repeat(length / 2)}"}}` },
  {
    name: "containers and volumes of a pod",
    path: `${NAMESPACED}/pods`,
    text: (length) =>
      `{${meta},"spec":{"containers":[${numbered((at) => `{"name":"c${at}","image":"i","volumeMounts":[{"name":"v${at}","mountPath":"/m${at}"}]}`, length / 2)}],"volumes":[${numbered((at) => `{"name":"v${at}","emptyDir":{}}`, length / 2)}]}}`,
  },
  {
    name: "containers of one name",
    path: `${NAMESPACED}/pods`,
    text: many(() => '{"name":"c","image":"i"}', `{${meta},"spec":{"containers":[`, "]}}"),
  },
  {
    name: "mounts of one path",
    path: `${NAMESPACED}/pods`,
    text: (length) =>
      podWith(
        `"volumes":[],"initContainers":[{"name":"d","image":"i","volumeMounts":[${numbered(() => '{"name":"v","mountPath":"/m"}', length)}]}]`,
      ),
  },
  {
    name: "ports of a container",
    path: `${NAMESPACED}/pods`,
    text: (length) =>
      `{${meta},"spec":{"containers":[{"name":"c","image":"i","ports":[${numbered((at) => `{"containerPort":${1 + (at % 65_535)},"name":"p${at % 65_535}"}`, length)}]}]}}`,
  },
  {
    name: "tolerations",
    path: `${NAMESPACED}/pods`,
    text: (length) =>
      podWith(`"tolerations":[${numbered((at) => `{"key":"k${at}","operator":"Exists"}`, length)}]`),
  },
  {
    name: "selectors of topology",
    path: `${NAMESPACED}/pods`,
    text: (length) =>
      podWith(
        `"topologySpreadConstraints":[${numbered((at) => `{"maxSkew":1,"topologyKey":"k${at}","whenUnsatisfiable":"DoNotSchedule"}`, length)}]`,
      ),
  },
  {
    name: "host aliases",
    path: `${NAMESPACED}/pods`,
    text: (length) =>
      podWith(`"hostAliases":[${numbered((at) => `{"ip":"10.0.0.1","hostnames":["h${at}"]}`, length)}]`),
  },
  {
    name: "requests of resources",
    path: `${NAMESPACED}/pods`,
    text: (length) =>
      `{${meta},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{${numbered((at) => `"x.io/r${at}":"1"`, length / 2)}},"limits":{${numbered((at) => `"x.io/r${at}":"1"`, length / 2)}}}}]}}`,
  },
  { name: "variables of a Deployment", path: DEPLOYMENTS, text: env },
  {
    name: "ports of a Service",
    path: `${NAMESPACED}/services`,
    text: many((at) => `{"port":${1 + (at % 65_535)},"name":"p${at}"}`, `{${meta},"spec":{"ports":[`, "]}}"),
  },
  {
    name: "addresses of a Service",
    path: `${NAMESPACED}/services`,
    text: many(
      (at) => `"10.${(at >> 16) % 256}.${(at >> 8) % 256}.${at % 256}"`,
      `{${meta},"spec":{"ports":[{"port":80}],"externalIPs":[`,
      "]}}",
    ),
  },
  {
    name: "endpoints of a slice",
    path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    text: many(
      (at) => `{"addresses":["10.1.${(at >> 8) % 256}.${at % 256}"]}`,
      `{${meta},"addressType":"IPv4","endpoints":[`,
      "]}",
    ),
  },
  {
    name: "ports of a slice",
    path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    text: many(
      (at) => `{"port":80,"name":"p${at}"}`,
      `{${meta},"addressType":"IPv4","endpoints":[],"ports":[`,
      "]}",
    ),
  },
  {
    name: "subsets of endpoints",
    path: `${NAMESPACED}/endpoints`,
    text: many(
      (at) => `{"addresses":[{"ip":"10.1.${(at >> 8) % 256}.${at % 256}"}],"ports":[{"port":80}]}`,
      `{${meta},"subsets":[`,
      "]}",
    ),
  },
  {
    name: "paths of an Ingress",
    path: "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
    text: many(
      (at) =>
        `{"path":"/p${at}","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}`,
      `{${meta},"spec":{"rules":[{"http":{"paths":[`,
      "]}}]}}",
    ),
  },
  {
    name: "rules of a NetworkPolicy",
    path: "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    text: many(
      (at) => `{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.${at % 256}.0.0/16"]}}]}`,
      `{${meta},"spec":{"podSelector":{},"ingress":[`,
      "]}}",
    ),
  },
  {
    name: "rules of a role",
    path: "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    text: many(
      (at) => `{"apiGroups":["g${at}"],"resources":["r"],"verbs":["get"]}`,
      `{${meta},"rules":[`,
      "]}",
    ),
  },
  {
    name: "subjects of a binding",
    path: "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    text: many(
      (at) => `{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u${at}"}`,
      `{${meta},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[`,
      "]}",
    ),
  },
  {
    name: "a schedule",
    path: "/apis/batch/v1/namespaces/default/cronjobs",
    text: (length) =>
      `{${meta},"spec":{"schedule":"${repeated("1,", length)} * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`,
  },
  {
    name: "blanks of a schedule",
    path: "/apis/batch/v1/namespaces/default/cronjobs",
    text: (length) =>
      `{${meta},"spec":{"schedule":"*${" ".repeat(length)}* * * x","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`,
  },
  {
    name: "a request that is not PEM",
    path: "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    text: (length) =>
      `{${meta},"spec":{"signerName":"kubernetes.io/kube-apiserver-client","usages":["client auth"],"request":"${Buffer.from(repeated("-----BEGIN CERTIFICATE REQUEST-----\n", length * 0.75)).toString("base64")}"}}`,
  },
  {
    name: "a request of zeros",
    path: "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    text: (length) =>
      `{${meta},"spec":{"signerName":"kubernetes.io/kube-apiserver-client","usages":["client auth"],"request":"${Buffer.from(`-----BEGIN CERTIFICATE REQUEST-----\n${"A".repeat(length * 0.75)}\n-----END CERTIFICATE REQUEST-----\n`).toString("base64")}"}}`,
  },
  {
    name: "usages of a request",
    path: "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    text: many(
      () => '"client auth"',
      `{${meta},"spec":{"signerName":"kubernetes.io/kube-apiserver-client","request":"QQ==","usages":[`,
      "]}}",
    ),
  },
  {
    name: "a token that is reviewed",
    path: "/apis/authentication.k8s.io/v1/tokenreviews",
    text: (length) => `{"spec":{"token":"${repeated("a.", length)}"}}`,
  },
  {
    name: "audiences of a token that is reviewed",
    path: "/apis/authentication.k8s.io/v1/tokenreviews",
    text: many((at) => `"a${at}"`, '{"spec":{"token":"a","audiences":[', "]}}"),
  },
  {
    name: "groups of an access review",
    path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    text: many(
      (at) => `"g${at}"`,
      '{"spec":{"user":"u","resourceAttributes":{"verb":"get","resource":"pods"},"groups":[',
      "]}}",
    ),
  },
  {
    name: "properties of a CRD",
    path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    text: many(
      (at) => `"p${at}":{"type":"string"}`,
      '{"metadata":{"name":"as.x.io"},"spec":{"group":"x.io","scope":"Namespaced","names":{"plural":"as","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{',
      "}}}}]}}",
    ),
  },
  {
    name: "columns of a CRD",
    path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    text: many(
      (at) => `{"name":"c${at}","type":"string","jsonPath":".a"}`,
      '{"metadata":{"name":"as.x.io"},"spec":{"group":"x.io","scope":"Namespaced","names":{"plural":"as","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}},"additionalPrinterColumns":[',
      "]}]}}",
    ),
  },
  {
    name: "patterns of a CRD",
    path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    limit: 400_000,
    text: many(
      (at) => `"p${at}":{"type":"string","pattern":"^(a${at}+)+$"}`,
      '{"metadata":{"name":"as.x.io"},"spec":{"group":"x.io","scope":"Namespaced","names":{"plural":"as","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{',
      "}}}}]}}",
    ),
  },
  {
    name: "a merge patch",
    path: `${MAPS}/target`,
    method: "PATCH",
    type: "application/merge-patch+json",
    text: many((at) => `"k${at}":"v"`, '{"data":{', "}}"),
  },
  {
    name: "a strategic merge patch of variables",
    path: `${DEPLOYMENTS}/target`,
    method: "PATCH",
    type: "application/strategic-merge-patch+json",
    text: (length) =>
      `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[${numbered((at) => `{"name":"E${at}","value":"v"}`, length)}]}]}}}}`,
  },
  {
    name: "a strategic merge patch that orders variables",
    path: `${DEPLOYMENTS}/target`,
    method: "PATCH",
    type: "application/strategic-merge-patch+json",
    text: (length) =>
      `{"spec":{"template":{"spec":{"containers":[{"name":"c","$setElementOrder/env":[${numbered((at) => `{"name":"E${at}"}`, length / 2)}],"env":[${numbered((at) => `{"name":"E${at}","value":"v"}`, length / 2)}]}]}}}}`,
  },
  {
    name: "a strategic merge patch of finalizers",
    path: `${MAPS}/target`,
    method: "PATCH",
    type: "application/strategic-merge-patch+json",
    text: many((at) => `"x.io/f${at}"`, '{"metadata":{"finalizers":[', "]}}"),
  },
  {
    name: "a JSON patch",
    path: `${MAPS}/target`,
    method: "PATCH",
    type: "application/json-patch+json",
    limit: 500_000,
    text: many((at) => `{"op":"add","path":"/data/k${at}","value":"v"}`, "[", "]"),
  },
  {
    name: "an applied configuration",
    path: `${DEPLOYMENTS}/grown?fieldManager=m`,
    method: "PATCH",
    type: "application/apply-patch+yaml",
    text: env,
  },
  {
    name: "an applied configuration over another one",
    path: `${DEPLOYMENTS}/target?fieldManager=m&force=true`,
    method: "PATCH",
    type: "application/apply-patch+yaml",
    text: (length) => env(length).replace("grown", "target"),
  },
  {
    name: "an applied configuration with items of one key",
    path: `${DEPLOYMENTS}/grown?fieldManager=m`,
    method: "PATCH",
    type: "application/apply-patch+yaml",
    text: (length) =>
      deployment(`{"name":"c","image":"i","env":[${numbered(() => '{"name":"E","value":"v"}', length)}]}`),
  },
  {
    name: "options of a deletion",
    path: `${MAPS}/absent`,
    method: "DELETE",
    text: many(() => '"All"', '{"dryRun":[', "]}"),
  },
  {
    name: "a scale",
    path: `${DEPLOYMENTS}/target/scale`,
    method: "PUT",
    text: many(
      (at) => `"k${at}":1`,
      '{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"target"},"spec":{',
      "}}",
    ),
  },
  {
    name: "an eviction",
    path: `${NAMESPACED}/pods/absent/eviction`,
    method: "POST",
    text: many(
      (at) => `"k${at}":1`,
      '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"absent"},"deleteOptions":{',
      "}}",
    ),
  },
];

function sent({
  name,
  path,
  method = "POST",
  type = "application/json",
  limit = BODY,
  text,
}: Body): HostileRequest {
  const dry = `${path}${path.includes("?") ? "&" : "?"}dryRun=All`;
  const headers = { "Content-Type": type };
  return { name, limit, make: (length) => ({ method, path: dry, headers, body: text(length) }) };
}

export const REQUESTS: readonly HostileRequest[] = [
  ...QUERIES.map(([parameter, part]) => query(parameter, part)),
  ...REFUSED_BY_WATCHES.map(([parameter, part]) => query(parameter, part, `${MAPS}?watch=1`)),
  ...HEADERS,
  ...BODIES.map(sent),
];
