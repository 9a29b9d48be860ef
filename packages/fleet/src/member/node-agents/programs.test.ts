import { describe, expect, it } from "vitest";
import { UPGRADED_FROM_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { PERMISSIONS_VARIABLE } from "#authz/digest.ts";
import type { Deployment } from "@fairlead/kube/api/apps/v1/types.ts";
import { planOwn } from "./programs.ts";

const REPOSITORY = "registry.example:5000/fairlead";
const version = "0.2.0";

function deployment(tag: string, of: Partial<Deployment["metadata"]> = {}, granted = "abc"): Deployment {
  return {
    metadata: {
      namespace: "fleet-system",
      name: "fairlead-member",
      generation: 3,
      labels: { "app.kubernetes.io/managed-by": "fairlead" },
      ...of,
    },
    spec: {
      replicas: 2,
      selector: { matchLabels: { component: "member" } },
      template: {
        metadata: {},
        spec: {
          containers: [
            {
              name: "member",
              image: `${REPOSITORY}:${tag}`,
              env: [{ name: PERMISSIONS_VARIABLE, value: granted }],
            },
          ],
        },
      },
    },
    status: { observedGeneration: 3, replicas: 2, updatedReplicas: 2, availableReplicas: 2 },
  };
}

const plan = (of: Deployment | undefined, tag: string) =>
  planOwn(of, { image: `${REPOSITORY}:${tag}`, version });

describe("the Deployment of a member's agent", () => {
  it("gets the image of the node agents, and keeps the one that it had as an annotation", () => {
    expect(plan(deployment("0.2.0"), "0.3.0")).toEqual({
      step: "apply",
      wanted: {
        metadata: {
          namespace: "fleet-system",
          name: "fairlead-member",
          annotations: { [UPGRADED_FROM_ANNOTATION]: `${REPOSITORY}:0.2.0` },
        },
        spec: { template: { spec: { containers: [{ name: "member", image: `${REPOSITORY}:0.3.0` }] } } },
      },
    });
  });

  it.each<[string, Deployment | undefined, string]>([
    ["is absent, as in a lab", undefined, "0.3.0"],
    ["belongs to a chart", deployment("0.2.0", { labels: {} }), "0.3.0"],
    ["was installed by a release whose permissions are not known", deployment("0.2.0", {}, ""), "0.3.0"],
    ["is newer than the profile, because join installed it", deployment("0.2.0"), "0.1.0"],
    ["runs the image already", deployment("0.2.0"), "0.2.0"],
  ])("is left alone if it %s", (_, of, tag) => {
    expect(plan(of, tag)).toEqual({ step: "nothing" });
  });

  it("goes back to the image that it was upgraded from", () => {
    const annotations = { [UPGRADED_FROM_ANNOTATION]: `${REPOSITORY}:0.1.0` };
    expect(plan(deployment("0.2.0", { annotations }), "0.1.0").step).toBe("apply");
  });

  it("goes back to the image of the copies that still run while those of the other one do not start", () => {
    expect(plan(deployment("0.3.0"), "0.2.0").step).toBe("apply");
  });

  it("is waited for until no copy runs the former image", () => {
    const rolling = {
      ...deployment("0.3.0"),
      status: { observedGeneration: 3, replicas: 3, updatedReplicas: 2 },
    };
    expect(plan(rolling, "0.3.0")).toEqual({
      step: "wait",
      lacking: "1 old pods are still there",
      selector: "component=member",
    });
  });
});
