import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "@fairlead/base/log.ts";
import { HUB_CRDS, MEMBER_CRDS, POLICY_CRDS } from "@fairlead/fleet/api/crds.ts";
import { installPolicies } from "@fairlead/fleet/authz/policies/install.ts";
import { VALIDATING_ADMISSION_POLICIES } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  hasRealControllers,
  realAssets,
  startRealServer,
} from "../../packages/apiserver/test/real-server.ts";
import { testDeps } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";

interface TypeChecked {
  readonly status?: { readonly typeChecking?: { readonly expressionWarnings?: readonly unknown[] } };
}
const ALL = [
  ...new Map([...HUB_CRDS, ...MEMBER_CRDS, ...POLICY_CRDS].map((it) => [it.metadata.name, it])).values(),
];

/** Unlike ours, a real kube-apiserver estimates what rules cost, and compares types of policies. */
describe.skipIf(realAssets() === undefined)("a real kube-apiserver", () => {
  const stack = new AsyncDisposableStack();
  const signal = AbortSignal.timeout(180_000);
  let admin: KubeClient;
  beforeAll(async () => {
    const server = stack.use(await startRealServer({ hasControllers: true }));
    admin = stack.use(connect(await loadKubeconfig(server.kubeconfig), testDeps("admin")));
  }, 180_000);
  afterAll(() => stack.disposeAsync());

  it("takes each definition with all of its rules", async () => {
    await installCrds(admin, { crds: ALL, fieldManager: "test" }, testDeps("admin"), signal);
    for (const it of ALL) {
      const { status } = await admin.get(CUSTOM_RESOURCE_DEFINITIONS, keyOf(it));
      const wrong = (status?.conditions ?? []).filter((one) => one.status !== "True");
      expect([it.metadata.name, ...wrong]).toEqual([it.metadata.name]);
    }
  });

  it("serves each version of each kind", async () => {
    for (const { spec } of ALL)
      for (const { name } of spec.versions) {
        const of = resource(`${spec.group}/${name}`, spec.names.kind, spec.names.plural, spec.scope);
        expect((await admin.list(of, { signal })).items).toEqual([]);
      }
  });

  it.skipIf(!hasRealControllers())("finds no wrong type in any policy", async () => {
    await installPolicies(admin, silentLogger, signal);
    const policies = await eventually(
      admin,
      VALIDATING_ADMISSION_POLICIES,
      (all) => all.length > 0 && all.every((it) => (it as TypeChecked).status?.typeChecking !== undefined),
    );
    for (const it of policies) {
      const { expressionWarnings = [] } = (it as TypeChecked).status?.typeChecking ?? {};
      expect([it.metadata.name, ...expressionWarnings]).toEqual([it.metadata.name]);
    }
  });
});
