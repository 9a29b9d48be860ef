import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PolicyRule } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { ApiObject, UserInfo } from "#values/object.ts";
import { RbacAuthorizer } from "./rbac.ts";
import { CompiledRule, uncoveredRules } from "./rules.ts";
import type { Attributes } from "#values/authorizer.ts";

const RBAC = "rbac.authorization.k8s.io/v1";

function role(name: string, rules: readonly PolicyRule[], namespace?: string, labels = {}): ApiObject {
  const kind = namespace === undefined ? "ClusterRole" : "Role";
  const place = namespace === undefined ? {} : { namespace };
  return { apiVersion: RBAC, kind, metadata: { name, ...place, labels }, rules };
}

function binding(name: string, to: string, subjects: readonly object[], namespace?: string): ApiObject {
  const kind = namespace === undefined ? "ClusterRoleBinding" : "RoleBinding";
  const place = namespace === undefined ? {} : { namespace };
  const [roleKind, roleName] = to.split("/");
  return {
    apiVersion: RBAC,
    kind,
    metadata: { name, ...place },
    roleRef: { kind: roleKind, name: roleName },
    subjects,
  };
}

const ada: UserInfo = { name: "ada", groups: ["devs", "system:authenticated"] };

function asks(user: UserInfo, verb: string, what: string, namespace?: string): Attributes {
  const [path = "", name = ""] = what.split("#");
  const [resource = "", subresource = ""] = path.split("/");
  return { user, verb, resource: { group: "", resource, subresource, namespace, name } };
}

const reading: PolicyRule = { verbs: ["get", "list"], apiGroups: [""], resources: ["pods"] };

describe("what a user may do", () => {
  it("is nothing without a binding, and everything for system:masters", () => {
    const rbac = new RbacAuthorizer();
    expect(rbac.authorize(asks(ada, "get", "pods", "n"))).toEqual({ allowed: false, reason: "" });
    const admin = { name: "root", groups: ["system:masters"] };
    expect(rbac.authorize(asks(admin, "delete", "secrets", "n")).allowed).toBe(true);
  });

  it("comes from roles of the cluster in all namespaces, and from bindings of a namespace in that one", () => {
    const rbac = new RbacAuthorizer();
    rbac.roleStored(role("reader", [reading]), undefined);
    rbac.bindingStored(
      binding("here", "ClusterRole/reader", [{ kind: "User", name: "ada" }], "n"),
      undefined,
    );
    expect(rbac.authorize(asks(ada, "get", "pods", "n")).allowed).toBe(true);
    expect(rbac.authorize(asks(ada, "get", "pods", "other")).allowed).toBe(false);
    expect(rbac.authorize(asks(ada, "list", "pods")).allowed).toBe(false);
    rbac.bindingStored(binding("all", "ClusterRole/reader", [{ kind: "Group", name: "devs" }]), undefined);
    expect(rbac.authorize(asks(ada, "get", "pods", "other")).allowed).toBe(true);
    expect(rbac.authorize(asks(ada, "list", "pods"))).toEqual({
      allowed: true,
      reason: 'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to Group "devs"',
    });
  });

  it("is revoked when the binding, the role or the subject is removed", () => {
    const rbac = new RbacAuthorizer();
    const reader = role("reader", [reading], "n");
    const bound = binding("b", "Role/reader", [{ kind: "User", name: "ada" }], "n");
    const without = binding("b", "Role/reader", [], "n");
    const isAllowed = (): boolean => rbac.authorize(asks(ada, "get", "pods", "n")).allowed;
    rbac.roleStored(reader, undefined);
    rbac.bindingStored(bound, undefined);
    expect(isAllowed()).toBe(true);
    rbac.bindingStored(without, bound);
    expect(isAllowed()).toBe(false);
    rbac.bindingStored(bound, without);
    rbac.roleStored(undefined, reader);
    expect(isAllowed()).toBe(false);
    rbac.roleStored(reader, undefined);
    rbac.bindingStored(undefined, bound);
    expect(isAllowed()).toBe(false);
  });

  it("is bound to ServiceAccounts by namespace and name", () => {
    const rbac = new RbacAuthorizer();
    rbac.roleStored(role("reader", [reading]), undefined);
    rbac.bindingStored(
      binding("b", "ClusterRole/reader", [{ kind: "ServiceAccount", name: "bot", namespace: "tools" }], "n"),
      undefined,
    );
    const bot = (namespace: string): UserInfo => ({
      name: `system:serviceaccount:${namespace}:bot`,
      groups: [],
    });
    expect(rbac.authorize(asks(bot("tools"), "get", "pods", "n")).allowed).toBe(true);
    expect(rbac.authorize(asks(bot("n"), "get", "pods", "n")).allowed).toBe(false);
  });

  it("follows the parts of an aggregated role, also parts that come later", () => {
    const rbac = new RbacAuthorizer();
    const aggregated = (name: string, labels: object): ApiObject => ({
      ...role(name, [], undefined, labels),
      aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [`to-${name}`]: "true" } }] },
    });
    rbac.roleStored(aggregated("view", {}), undefined);
    rbac.bindingStored(binding("b", "ClusterRole/view", [{ kind: "User", name: "ada" }]), undefined);
    expect(rbac.authorize(asks(ada, "get", "pods", "n")).allowed).toBe(false);
    const part = role("part", [reading], undefined, { "to-view": "true" });
    rbac.roleStored(part, undefined);
    expect(rbac.authorize(asks(ada, "get", "pods", "n")).allowed).toBe(true);
    rbac.roleStored(undefined, part);
    expect(rbac.authorize(asks(ada, "get", "pods", "n")).allowed).toBe(false);
  });
});

describe("a rule", () => {
  const allows = (rule: PolicyRule, verb: string, what: string): boolean =>
    new CompiledRule(rule).allows(asks(ada, verb, what, "n"));

  it("for a resource does not apply to its subresources, nor the other way round", () => {
    expect(allows(reading, "get", "pods/log")).toBe(false);
    const log = { ...reading, resources: ["pods/log"] };
    expect(allows(log, "get", "pods/log")).toBe(true);
    expect(allows(log, "get", "pods")).toBe(false);
  });

  it("with a star before the slash applies to that subresource of all resources", () => {
    const scale = { ...reading, resources: ["*/scale"] };
    expect(allows(scale, "get", "deployments/scale")).toBe(true);
    expect(allows(scale, "get", "deployments/status")).toBe(false);
  });

  it("with names applies only to these objects, not to the collection", () => {
    const named = { ...reading, resourceNames: ["a"] };
    expect(allows(named, "get", "pods#a")).toBe(true);
    expect(allows(named, "get", "pods#b")).toBe(false);
    expect(allows(named, "list", "pods")).toBe(false);
    expect(allows(named, "list", "pods#a")).toBe(true);
  });

  it.each([
    ["/healthz", "/healthz", true],
    ["/healthz", "/healthz/ping", false],
    ["/apis/*", "/apis/apps", true],
    ["/apis/*", "/api", false],
    ["*", "/anything", true],
  ])("for the path %s matches %s: %s", (pattern, path, expected) => {
    const rule = new CompiledRule({ verbs: ["get"], nonResourceURLs: [pattern] });
    expect(rule.allows({ user: ada, verb: "get", path })).toBe(expected);
    expect(rule.allows({ user: ada, verb: "post", path })).toBe(false);
  });
});

describe("the rules of a user", () => {
  const some = <T>(...of: readonly T[]): fc.Arbitrary<T[]> => fc.subarray([...of], { minLength: 1 });
  const rule: fc.Arbitrary<PolicyRule> = fc.record({
    verbs: some("get", "list", "*"),
    apiGroups: some("", "apps", "*"),
    resources: some("pods", "pods/log", "*/log", "*"),
    resourceNames: fc.subarray(["a", "b"]),
  });

  const request: fc.Arbitrary<Attributes> = fc
    .record({
      verb: fc.constantFrom("get", "list", "watch"),
      group: fc.constantFrom("", "apps", "batch"),
      path: fc.constantFrom("pods", "pods/log", "jobs/log", "secrets"),
      name: fc.constantFrom("", "a", "c"),
    })
    .map(({ verb, group, path, name }) => {
      const [resource = "", subresource = ""] = path.split("/");
      return { user: ada, verb, resource: { group, resource, subresource, namespace: "n", name } };
    });

  it("cover themselves, and nothing that they do not allow", () => {
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 3 }), rule, request, (held, wanted, attributes) => {
        expect(uncoveredRules([...held, wanted], [wanted])).toEqual([]);
        const isGranted = new CompiledRule(wanted).allows(attributes);
        if (!isGranted || uncoveredRules(held, [wanted]).length > 0) return;
        expect(held.some((it) => new CompiledRule(it).allows(attributes))).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });
});
