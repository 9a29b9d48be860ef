import { describe, expect, it } from "vitest";
import { parsePath, verbOf } from "./path.ts";

describe("a path", () => {
  const cases: readonly [string, object][] = [
    ["/api/v1/pods", { group: "", version: "v1", plural: "pods", namespace: undefined, name: undefined }],
    ["/api/v1/namespaces/a/pods/b", { plural: "pods", namespace: "a", name: "b", subresource: "" }],
    ["/api/v1/namespaces/a/pods/b/exec", { plural: "pods", namespace: "a", name: "b", subresource: "exec" }],
    ["/apis/apps/v1/namespaces/a/deployments/b/scale", { group: "apps", name: "b", subresource: "scale" }],
    ["/api/v1/namespaces", { plural: "namespaces", name: undefined }],
    ["/api/v1/namespaces/a", { plural: "namespaces", namespace: undefined, name: "a" }],
    // Namespaces have these two; anything else below them is a resource in them.
    ["/api/v1/namespaces/a/status", { plural: "namespaces", name: "a", subresource: "status" }],
    ["/api/v1/namespaces/a/finalize", { plural: "namespaces", name: "a", subresource: "finalize" }],
    ["/api/v1/namespaces/a/status/b", { plural: "status", namespace: "a", name: "b" }],
    ["/api/v1/watch/namespaces/a/pods/b", { plural: "pods", namespace: "a", name: "b", isWatch: true }],
    ["/apis/apps/v1/watch/deployments", { group: "apps", plural: "deployments", isWatch: true }],
    ["/apis/g/v1/things/a%2Fb", { plural: "things", name: "a", subresource: "b" }],
  ];
  it.each(cases)("%s names a resource", (path, expected) => {
    expect(parsePath(path)).toMatchObject({ kind: "resource", ...expected });
  });

  it.each([
    "/",
    "/api",
    "/api/v1",
    "/api/v1/watch",
    "/api/v1/watch/watch/pods",
    "/apis/apps",
    "/apis/apps/v1",
    "/version",
    "/healthz/ping",
    "/api/v1/%zz",
  ])("%s is not a resource path", (path) => {
    expect(parsePath(path)).toEqual({ kind: "path", path });
  });

  it("and a method determine the verb", () => {
    const verb = (method: string, path: string, query = ""): string | undefined => {
      const target = parsePath(path);
      return target.kind === "resource" ? verbOf(method, target, new URLSearchParams(query)) : undefined;
    };
    expect(verb("GET", "/api/v1/pods")).toBe("list");
    expect(verb("GET", "/api/v1/pods", "watch=true")).toBe("watch");
    expect(verb("GET", "/api/v1/pods", "watch=0")).toBe("list");
    expect(verb("GET", "/api/v1/watch/nodes/a")).toBe("watch");
    expect(verb("DELETE", "/api/v1/watch/nodes/a")).toBeUndefined();
    expect(verb("GET", "/api/v1/nodes/a")).toBe("get");
    expect(verb("DELETE", "/api/v1/pods")).toBe("deletecollection");
    expect(verb("DELETE", "/api/v1/nodes/a")).toBe("delete");
    expect(verb("PUT", "/api/v1/pods")).toBeUndefined();
    expect(verb("BREW", "/api/v1/pods")).toBeUndefined();
  });
});
