import { X509Certificate } from "node:crypto";
import { type Clock, offsetClock } from "@fairlead/base/clock.ts";
import type { Secret } from "@fairlead/kube/api/core/v1/types.ts";

/** The webhook's certificate and the authority that issued it, made by the hub: what its Secret holds, and what is due. */

export interface WebhookCertificates {
  /** PEM: the authorities that the API server is to trust, the newest first. */
  readonly authorities: readonly string[];
  readonly current: CertificatePair;
  /** To be served once the API server trusts its authority. */
  readonly next: CertificatePair | undefined;
}
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

export const CERTIFICATE_DAYS = 90;
const DAY_MS = 86_400_000;
/** It is valid for an API server whose clock is that far behind the hub's. */
const BACKDATED_DAYS = 2;
/** A new one is made when less of the old one's life is left. */
const RENEW_BEFORE_MS = (CERTIFICATE_DAYS / 3) * DAY_MS;

export type Due = "create" | "renew" | "promote" | "nothing";

/** What is to be done next. */
export function due(
  certificates: WebhookCertificates | undefined,
  names: readonly string[],
  nowMs: number,
): Due {
  if (certificates === undefined || !serves(certificates.current, names)) return "create";
  // Made while the clock was ahead: no API server accepts it.
  if (startOf(certificates.current) > nowMs) return "create";
  if (certificates.next !== undefined) return "promote";
  return endOf(certificates.current) - nowMs < RENEW_BEFORE_MS ? "renew" : "nothing";
}

function startOf({ cert }: CertificatePair): number {
  return new X509Certificate(cert).validFromDate.getTime();
}

function endOf({ cert }: CertificatePair): number {
  return new X509Certificate(cert).validToDate.getTime();
}

/** Whether it is for all of these names. */
function serves({ cert }: CertificatePair, names: readonly string[]): boolean {
  const certificate = new X509Certificate(cert);
  return names.every((it) => (certificate.checkHost(it) ?? certificate.checkIP(it)) !== undefined);
}

const text = (data: Secret["data"], name: string): string =>
  Buffer.from(data?.[name] ?? "", "base64").toString();

/** Undefined if the Secret is absent or was damaged: a new one replaces it. */
export function readSecret(secret: Secret | undefined): WebhookCertificates | undefined {
  const pair = (prefix: string): CertificatePair | undefined => {
    const [cert, key] = [text(secret?.data, `${prefix}.crt`), text(secret?.data, `${prefix}.key`)];
    return isCertificate(cert) && key !== "" ? { cert, key } : undefined;
  };
  const authorities = text(secret?.data, "ca.crt")
    .split(/(?=-----BEGIN CERTIFICATE-----)/)
    .filter(isCertificate);
  const current = pair("tls");
  if (current === undefined || authorities.length === 0) return undefined;
  return { authorities, current, next: pair("next") };
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).validTo !== "";
  } catch {
    return false;
  }
}

export function secretData({ authorities, current, next }: WebhookCertificates): Record<string, string> {
  const data = {
    "ca.crt": authorities.join(""),
    "tls.crt": current.cert,
    "tls.key": current.key,
    "next.crt": next?.cert ?? "",
    "next.key": next?.key ?? "",
  };
  return Object.fromEntries(
    Object.entries(data).map(([name, it]) => [name, Buffer.from(it).toString("base64")]),
  );
}

/** An authority for one certificate: nothing else is ever signed by it, and its key is thrown away. */
export async function issue(
  names: readonly string[],
  clock: Clock,
): Promise<{ readonly authority: string; readonly pair: CertificatePair }> {
  const { issueAuthority, issueServerCertificate } = await import("@fairlead/base/pki/issue.ts");
  const since = offsetClock(clock, -BACKDATED_DAYS * DAY_MS);
  const validity = { days: CERTIFICATE_DAYS + BACKDATED_DAYS, clock: since };
  const authority = await issueAuthority({ commonName: "fairlead-hub-webhook", ...validity });
  const isAddress = (it: string): boolean => /^[\d.]+$/.test(it) || it.includes(":");
  const pair = await issueServerCertificate(authority, {
    names: names.filter((it) => !isAddress(it)),
    ips: names.filter(isAddress),
    ...validity,
  });
  return { authority: authority.cert, pair };
}
