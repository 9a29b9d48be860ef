import { resource } from "../../meta/resource.ts";
import type { KubeObject } from "../../meta/types.ts";

/** Kinds of the group certificates.k8s.io, cut to the fields this project reads or writes. */

export interface SigningRequestCondition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastUpdateTime?: string;
  lastTransitionTime?: string;
}

export interface CertificateSigningRequest extends KubeObject {
  spec: {
    /** PKCS #10 in PEM, base64. */
    request: string;
    signerName: string;
    usages?: string[];
    /** Unit: seconds, 600 at least. */
    expirationSeconds?: number;
    /** The requester: the API server sets these four fields, whatever the request contains. */
    username?: string;
    uid?: string;
    groups?: string[];
    extra?: Record<string, string[]>;
  };
  status?: {
    conditions?: SigningRequestCondition[];
    /** PEM, base64. */
    certificate?: string;
  };
}

export const CERTIFICATE_SIGNING_REQUESTS = resource<CertificateSigningRequest>(
  "certificates.k8s.io/v1",
  "CertificateSigningRequest",
  "certificatesigningrequests",
  "Cluster",
);

/** Not served: the name under which roles say who approves and signs. */
export const SIGNERS = { group: "certificates.k8s.io", plural: "signers" } as const;

/** The signer of client certificates for the API server; users may have any name. */
export const CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client";
