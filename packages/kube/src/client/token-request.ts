import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { KubeClient } from "#types.ts";

/** Asks the API server for a token of a service account (TokenRequest, authentication.k8s.io/v1). */
export async function requestToken(
  client: KubeClient,
  account: { readonly namespace: string; readonly name: string; readonly seconds: number },
  signal: AbortSignal,
): Promise<string> {
  const path = `/api/v1/namespaces/${account.namespace}/serviceaccounts/${account.name}/token`;
  const body = {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: { expirationSeconds: account.seconds },
  };
  const response = await client.request("POST", path, body, { signal });
  const status = isObject(response) ? response["status"] : undefined;
  const token = isObject(status) ? status["token"] : undefined;
  if (typeof token === "string" && token !== "") return token;
  throw new FleetError(
    "API_UNEXPECTED",
    `the API server returned no token for ServiceAccount ${account.namespace}/${account.name}`,
  );
}
