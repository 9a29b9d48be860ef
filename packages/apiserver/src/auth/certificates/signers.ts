import { sameJson } from "@fairlead/base/json.ts";
import type { CertificateRequest } from "@fairlead/base/pki/request.ts";

/** The certificates that the built-in signers issue. Source: k8s.io/kubernetes, pkg/controller/certificates/signer. */

/** Clients of the API server, of any name. */
export const API_CLIENT = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING = "kubernetes.io/kubelet-serving";

/** Returns why a request is not to be signed, or undefined. */
type Check = (request: CertificateRequest, usages: readonly string[]) => string | undefined;

/** The signers whose approved requests this server signs, with what they ask of them. */
export const SIGNERS: ReadonlyMap<string, Check> = new Map<string, Check>([
  [API_CLIENT, (request, usages) => checkClientUsages(usages) ?? refuseNames(request, ["dns", "ip"])],
  [
    KUBELET_CLIENT,
    (request, usages) =>
      checkNodeGroup(request) ??
      refuseNames(request, ["dns", "ip"]) ??
      checkNodeName(request) ??
      checkExactUsages(usages, "client auth"),
  ],
  [
    KUBELET_SERVING,
    (request, usages) =>
      checkNodeGroup(request) ??
      (request.dnsNames.length + request.ipAddresses.length === 0
        ? "DNS or IP subjectAltName is required"
        : undefined) ??
      refuseNames(request, []) ??
      checkNodeName(request) ??
      checkExactUsages(usages, "server auth"),
  ],
]);

const CLIENT_USAGES: ReadonlySet<string> = new Set(["digital signature", "key encipherment", "client auth"]);

function checkClientUsages(usages: readonly string[]): string | undefined {
  const other = usages.find((it) => !CLIENT_USAGES.has(it));
  if (other !== undefined) return `invalid usage for client certificate: ${other}`;
  return usages.includes("client auth")
    ? undefined
    : "missing required usage for client certificate: client auth";
}

function checkExactUsages(usages: readonly string[], purpose: string): string | undefined {
  const wanted = ["digital signature", "key encipherment", purpose];
  const found = [...new Set(usages)].toSorted();
  const withoutRsa = wanted.filter((it) => it !== "key encipherment");
  if (sameJson(found, wanted.toSorted()) || sameJson(found, withoutRsa.toSorted())) return undefined;
  return `usages did not match [${wanted.toSorted().join(" ")}]`;
}

function checkNodeGroup({ organizations }: CertificateRequest): string | undefined {
  return sameJson(organizations, ["system:nodes"]) ? undefined : "subject organization is not system:nodes";
}

function checkNodeName({ commonName }: CertificateRequest): string | undefined {
  return commonName.startsWith("system:node:")
    ? undefined
    : "subject common name does not begin with system:node:";
}

/** A client has its name in the subject alone. */
function refuseNames(
  { dnsNames, ipAddresses, emails, uris, hasOtherNames }: CertificateRequest,
  forbidden: readonly ("dns" | "ip")[],
): string | undefined {
  const kinds = [
    forbidden.includes("dns") && dnsNames.length > 0 ? "DNS" : "",
    emails.length > 0 ? "Email" : "",
    forbidden.includes("ip") && ipAddresses.length > 0 ? "IP" : "",
    uris.length > 0 ? "URI" : "",
    hasOtherNames ? "Other" : "",
  ];
  const found = kinds.find((it) => it !== "");
  return found === undefined ? undefined : `${found} subjectAltNames are not allowed`;
}
