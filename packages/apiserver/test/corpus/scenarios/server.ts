import { area, get, scenario, send } from "../scenario.ts";

const of = { namespaced: false };
/** Names of the checks, and whether they hold, are each server's own. */
const shape = (body: unknown): unknown =>
  String(body)
    .split("\n")
    .map((it) => (it.startsWith("[+]") && it !== "[+]ping ok" ? undefined : it))
    .filter((it) => it !== undefined);

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const AUTHORITIES = "extension-apiserver-authentication";
const withoutCertificates = (body: unknown): unknown =>
  JSON.parse(JSON.stringify(body).replaceAll(/-----BEGIN[^"]*/g, "<certificates>"));

export const scenarios = area("server", [
  scenario("the version", [get("/version", { view: (body) => Object.keys(body as object) })], of),
  scenario(
    "health",
    [
      get("/healthz", { keep: ["X-Content-Type-Options", "Cache-Control"] }),
      get("/livez"),
      get("/readyz"),
      get("/readyz?verbose", { view: shape }),
      get("/livez?verbose=true", { view: shape }),
      get("/healthz?verbose=false", { view: shape }),
      get("/readyz?exclude=ping"),
      get("/readyz?verbose&exclude=ping", { view: shape }),
      get("/readyz?exclude=nothing"),
      get("/readyz?verbose&exclude=nothing", { view: shape }),
      get("/healthz/ping"),
      get("/livez/ping"),
      get("/readyz/ping"),
      get("/readyz/nothing"),
      send("POST", "/healthz", { body: {} }),
      send("HEAD", "/healthz"),
      get("/healthz/"),
    ],
    of,
  ),
  scenario(
    "the authorities of client certificates, and their readers",
    [
      get(`/api/v1/namespaces/kube-system/configmaps/${AUTHORITIES}`, { view: withoutCertificates }),
      get(`${RBAC}/namespaces/kube-system/roles/${AUTHORITIES}-reader`),
      get(`${RBAC}/namespaces/kube-system/rolebindings/system::${AUTHORITIES}-reader`),
    ],
    of,
  ),
  scenario("headers of every answer", [
    get("/api/v1/namespaces/$ns", { keep: ["Cache-Control"] }),
    get("/api/v1/namespaces/$ns/configmaps/absent", { keep: ["Cache-Control", "X-Content-Type-Options"] }),
    get("/nothing", { keep: ["Cache-Control", "X-Content-Type-Options"] }),
    get("/api", { keep: ["Cache-Control", "Vary"], view: () => undefined }),
    get("/openapi/v3", { keep: ["Cache-Control", "Vary"], view: () => undefined }),
    get("/version", { keep: ["Cache-Control"], view: () => undefined }),
  ]),
  scenario("answers are indented for people", [
    get("/api/v1/namespaces/$ns", { headers: { "User-Agent": "curl/8.0" }, view: () => undefined }),
    get("/api/v1/namespaces/$ns?pretty=true"),
  ]),
]);
