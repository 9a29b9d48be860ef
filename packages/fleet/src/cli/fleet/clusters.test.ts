import { describe, expect, it } from "vitest";
import { FleetError } from "@fairlead/base/errors.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { checkReachable } from "./clusters.ts";

const config = { name: "one", server: "https://192.0.2.1:6443" } as Parameters<
  typeof checkReachable
>[1]["config"];

function reach(problem: Error): Promise<void> {
  const request = async (): Promise<never> => {
    await Promise.resolve();
    throw problem;
  };
  const client = { request } as unknown as KubeClient;
  return checkReachable(
    client,
    { who: "the hub", config },
    systemDeps(silentLogger),
    new AbortController().signal,
  );
}

describe("an unreachable cluster", () => {
  it.for([
    [
      "SELF_SIGNED_CERT_IN_CHAIN",
      /cannot verify the certificate of the hub at https.*; check certificate-authority-data/,
    ],
    ["CERT_HAS_EXPIRED", /certificate of the hub/],
    ["ERR_TLS_CERT_ALTNAME_INVALID", /tls-server-name/],
    ["ECONNREFUSED", /the hub at https.* does not answer; check the address/],
  ] as const)("is reported with the cause: %s", async ([code, message]) => {
    const cause = Object.assign(new Error("below"), { code });
    const error = new FleetError("API_UNAVAILABLE", "no answer", { cause });
    await expect(reach(error)).rejects.toMatchObject({ code: "API_UNAVAILABLE", message });
  });

  it("says that the kubeconfig has no usable credentials where its plugin cannot run", async () => {
    const error = new FleetError("KUBECONFIG_INVALID", "users[0].user.exec: cannot run aws");
    const message = /^the kubeconfig has no usable credentials for the hub at https/;
    await expect(reach(error)).rejects.toMatchObject({ code: "KUBECONFIG_INVALID", message });
  });
});
