import { describe, expect, it } from "vitest";
import { type Fetch, listTags } from "./registry.ts";

const { signal } = new AbortController();

interface Seen {
  readonly url: string;
  readonly authorization: string | undefined;
}

/** A registry that answers in turn. */
function registry(...answers: readonly Response[]): { readonly fetch: Fetch; readonly seen: Seen[] } {
  const seen: Seen[] = [];
  const left = [...answers];
  const fetch: Fetch = (url, { headers }) => {
    seen.push({ url: url.href, authorization: headers["authorization"] });
    return Promise.resolve(left.shift() ?? new Response("", { status: 500 }));
  };
  return { fetch, seen };
}
const tags = (list: readonly string[], link?: string): Response =>
  Response.json({ name: "n", tags: list }, { headers: link === undefined ? {} : { link } });

describe("the tags of a repository", () => {
  it("are read page by page from the server that has them", async () => {
    const { fetch, seen } = registry(
      tags(["v1.34.1"], '</v2/kube-apiserver/tags/list?last=v1.34.1>; rel="next"'),
      tags(["v1.34.2"], '<https://elsewhere.example/v2/x>; rel="next"'),
    );
    expect(await listTags("registry.k8s.io/kube-apiserver", { fetch, signal })).toEqual([
      "v1.34.1",
      "v1.34.2",
    ]);
    expect(seen.map((it) => it.url)).toEqual([
      "https://registry.k8s.io/v2/kube-apiserver/tags/list?n=1000",
      "https://registry.k8s.io/v2/kube-apiserver/tags/list?last=v1.34.1",
    ]);
  });

  it("are read with the anonymous token that a registry asks for", async () => {
    const challenge =
      'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:rancher/k3s:pull"';
    const refused = new Response("", { status: 401, headers: { "www-authenticate": challenge } });
    const { fetch, seen } = registry(refused, Response.json({ token: "t" }), tags(["v1.34.1-k3s1"]));
    expect(await listTags("docker.io/rancher/k3s", { fetch, signal })).toEqual(["v1.34.1-k3s1"]);
    expect(seen[1]?.url).toBe(
      "https://auth.docker.io/token?service=registry.docker.io&scope=repository%3Arancher%2Fk3s%3Apull",
    );
    expect(seen[2]?.authorization).toBe("Bearer t");
  });

  it.each([
    ["without TLS", 'Bearer realm="http://auth.example/token"', /without TLS/],
    ["with a password", "Basic realm=x", /no anonymous token/],
  ])("are given up where the registry asks for a token %s", async (_what, challenge, message) => {
    const { fetch } = registry(new Response("", { status: 401, headers: { "www-authenticate": challenge } }));
    await expect(listTags("r.example/x", { fetch, signal })).rejects.toThrow(message);
  });

  it("are given up where the token server answers with something else", async () => {
    const challenge = 'Bearer realm="https://auth.example/token"';
    const refused = new Response("", { status: 401, headers: { "www-authenticate": challenge } });
    const { fetch } = registry(refused, new Response("<html>"));
    await expect(listTags("r.example/x", { fetch, signal })).rejects.toThrow("gave no anonymous token");
  });

  it("are given up with what the registry answered, and bounded in pages and bytes", async () => {
    await expect(listTags("r.example/x", { ...registry(), signal })).rejects.toThrow("answered 500");
    let asked = 0;
    const endless: Fetch = (url) =>
      Promise.resolve(tags(["v1.0.0"], `<${url.pathname}?last=${++asked}>; rel="next"`));
    await expect(listTags("r.example/x", { fetch: endless, signal })).rejects.toThrow("more than 200 pages");
    const huge = registry(new Response("x".repeat(9 * 1024 * 1024)));
    await expect(listTags("r.example/x", { ...huge, signal })).rejects.toThrow("larger than");
  });

  it.each(["kube-apiserver", "../x", "r.example", "r.example/x?y", "r.example/x y", "http://r.example/x"])(
    "are not asked for by a name that is not of a repository: %s",
    async (name) => {
      await expect(listTags(name, { fetch: registry().fetch, signal })).rejects.toThrow("--repository");
    },
  );
});
