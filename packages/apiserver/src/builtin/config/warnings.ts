import { createPrivateKey, X509Certificate } from "node:crypto";
import type { ApiObject } from "#values/object.ts";
import { stringMapAt } from "@fairlead/base/fields.ts";

const TLS_TYPE = "kubernetes.io/tls";

/** A key pair that no server could use. Source: k8s.io/kubernetes, pkg/registry/core/secret. */
export function tlsWarnings(object: ApiObject): readonly string[] {
  if (object["type"] !== TLS_TYPE) return [];
  const data = stringMapAt(object, "data");
  const [certificate, key] = ["tls.crt", "tls.key"].map((it) =>
    Buffer.from(data[it] ?? "", "base64").toString("utf8"),
  );
  const problem = pairProblem(certificate ?? "", key ?? "");
  return problem === undefined ? [] : [`tls: ${problem}`];
}

function pairProblem(certificate: string, key: string): string | undefined {
  if (!certificate.includes("-----BEGIN CERTIFICATE-----"))
    return "failed to find any PEM data in certificate input";
  if (!key.includes("-----BEGIN ")) return "failed to find any PEM data in key input";
  try {
    const isOfKey = new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key));
    return isOfKey ? undefined : "private key does not match public key";
  } catch {
    return "failed to parse private key";
  }
}
