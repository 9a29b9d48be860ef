import { describe, expect, it } from "vitest";
import type { PolicyRule } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { ApiObject } from "#values/object.ts";
import { FakeKind } from "#builtin/strategy.fake.ts";
import { RbacAuthorizer } from "./rbac.ts";
import { accessResources } from "./resources.ts";

const RBAC = "rbac.authorization.k8s.io/v1";
const SUBJECT = { kind: "User", name: "bob", apiGroup: "rbac.authorization.k8s.io" };

/** A cluster in which `tester` may read pods in namespace n, and write roles and bindings there. */
function cluster(): {
  roles: FakeKind;
  clusterRoles: FakeKind;
  bindings: FakeKind;
  authorizer: RbacAuthorizer;
} {
  const authorizer = new RbacAuthorizer();
  const [roles, clusterRoles, bindings] = accessResources(authorizer).map((it) => new FakeKind(it));
  if (roles === undefined || clusterRoles === undefined || bindings === undefined)
    throw new Error("no kinds");
  authorizer.roleStored(
    role("own", [{ verbs: ["get", "list"], apiGroups: [""], resources: ["pods"] }]),
    undefined,
  );
  authorizer.bindingStored(binding("own", "own", [{ ...SUBJECT, name: "tester" }]), undefined);
  return { roles, clusterRoles, bindings, authorizer };
}

function role(name: string, rules: readonly object[]): ApiObject {
  return { apiVersion: RBAC, kind: "Role", metadata: { name, namespace: "n" }, rules };
}

function binding(name: string, to: string, subjects: readonly object[] = [SUBJECT]): ApiObject {
  const roleRef = { kind: "Role", name: to, apiGroup: "rbac.authorization.k8s.io" };
  return { apiVersion: RBAC, kind: "RoleBinding", metadata: { name, namespace: "n" }, roleRef, subjects };
}

describe("a user who writes roles", () => {
  it("may grant what they have, and nothing else", () => {
    const { roles } = cluster();
    expect(roles.errorsOf(role("a", [{ verbs: ["get"], apiGroups: [""], resources: ["pods"] }]))).toEqual([]);
    const more = role("b", [{ verbs: ["get", "delete"], apiGroups: [""], resources: ["pods"] }]);
    expect(() => roles.write(more)).toThrow(
      'roles.rbac.authorization.k8s.io "b" is forbidden: user "tester" (groups=["system:authenticated"]) is ' +
        'attempting to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
    );
  });

  it("may grant more with the verb escalate", () => {
    const { roles, authorizer } = cluster();
    const escalate: PolicyRule = {
      verbs: ["escalate"],
      apiGroups: ["rbac.authorization.k8s.io"],
      resources: ["roles"],
    };
    authorizer.roleStored(role("own", [escalate]), role("own", []));
    expect(roles.errorsOf(role("b", [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }]))).toEqual([]);
  });

  it("may not aggregate permissions that they do not have", () => {
    const { clusterRoles } = cluster();
    const aggregated = {
      ...role("agg", []),
      kind: "ClusterRole",
      metadata: { name: "agg" },
      aggregationRule: { clusterRoleSelectors: [{ matchLabels: { a: "b" } }] },
    };
    expect(() => clusterRoles.write(aggregated)).toThrow('Verbs:["*"]');
  });
});

describe("a user who writes bindings", () => {
  it("may bind roles whose rules they have, and no others", () => {
    const { bindings, authorizer } = cluster();
    expect(bindings.errorsOf(binding("a", "own"))).toEqual([]);
    authorizer.roleStored(
      role("secrets", [{ verbs: ["get"], apiGroups: [""], resources: ["secrets"] }]),
      undefined,
    );
    expect(() => bindings.write(binding("b", "secrets"))).toThrow("not currently held");
    expect(() => bindings.write(binding("c", "absent"))).toThrow('"absent" not found');
  });

  it("may bind more with the verb bind", () => {
    const { bindings, authorizer } = cluster();
    const rules = [
      {
        verbs: ["bind"],
        apiGroups: ["rbac.authorization.k8s.io"],
        resources: ["roles"],
        resourceNames: ["secrets"],
      },
    ];
    authorizer.roleStored(role("own", rules), role("own", []));
    authorizer.roleStored(
      role("secrets", [{ verbs: ["get"], apiGroups: [""], resources: ["secrets"] }]),
      undefined,
    );
    expect(bindings.errorsOf(binding("b", "secrets"))).toEqual([]);
  });

  it("cannot change the role of a binding", () => {
    const { bindings } = cluster();
    bindings.write(binding("a", "own"));
    expect(bindings.errorsOf(binding("a", "other"))).toEqual([
      'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: cannot change roleRef',
    ]);
  });

  it("must specify subjects of a known kind", () => {
    const { bindings } = cluster();
    expect(bindings.errorsOf(binding("a", "own", [{ kind: "Robot", name: "x" }]))).toEqual([
      'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
    ]);
  });
});

describe("a rule of a role", () => {
  it.each<[object, string]>([
    [
      { verbs: [], apiGroups: [""], resources: ["pods"] },
      "rules[0].verbs: Required value: verbs must contain at least one value",
    ],
    [
      { verbs: ["get"], resources: ["pods"] },
      "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
    ],
    [
      { verbs: ["get"], apiGroups: [""] },
      "rules[0].resources: Required value: resource rules must supply at least one resource",
    ],
    [
      { verbs: ["get"], nonResourceURLs: ["/x"] },
      'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
    ],
  ])("may not be %j", (rule, error) => {
    const { authorizer } = cluster();
    const [definition] = accessResources(authorizer);
    if (definition === undefined) throw new Error("no kind");
    const trusted = new FakeKind(definition, { user: { name: "root", groups: ["system:masters"] } });
    expect(trusted.errorsOf(role("a", [rule]))).toContain(error);
  });
});
