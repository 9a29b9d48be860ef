import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { type Clock, systemClock } from "#clock.ts";
import { FleetError } from "#errors.ts";
import { readIfPresent, writeSecretFile } from "./files.ts";
import { type CertificatePair, generatePrivateKey, publicKeyOf } from "./keys.ts";

/** The keys and certificates of one API server, kept in a folder. */
export interface ClusterPki {
  readonly ca: CertificatePair;
  readonly apiserver: CertificatePair;
  /** With which the API server calls kubelets. */
  readonly kubeletClient: CertificatePair;
  /** With which ServiceAccount tokens are signed and checked. PEM. */
  readonly serviceAccount: { readonly privateKey: string; readonly publicKey: string };
}

export interface ClusterPkiOptions {
  /** Names and addresses of the API server, in addition to those of the Service `kubernetes`. */
  readonly serverSans?: readonly string[];
  /** The cluster's DNS domain. Default: cluster.local. */
  readonly clusterDomain?: string;
  readonly clock?: Clock;
}

/** A certificate is renewed when less than this is left. Unit: milliseconds. */
const RENEW_BEFORE_MS = 30 * 86_400_000;

/**
 * Reads the PKI in `dir`, and creates missing files. A leaf certificate is reissued before it expires, if it belongs to another
 * authority, or (the server's) if its names differ from the requested ones. Every other file stays as it is.
 *
 * @throws {FleetError} `OPTION_INVALID` if the authority's certificate and key do not match: replacing them
 *   would disconnect every client, so an administrator must decide.
 */
export async function ensureClusterPki(dir: string, options: ClusterPkiOptions = {}): Promise<ClusterPki> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const clock = options.clock ?? systemClock;
  const ca = await ensureAuthority(dir, clock);
  const sans = splitSans(wellKnownSans(options.clusterDomain ?? "cluster.local"), options.serverSans ?? []);
  const [apiserver, kubeletClient, serviceAccount] = await Promise.all([
    ensureServerCertificate(dir, ca, { ...sans, clock }),
    ensureClientCertificate(dir, ca, {
      file: "kubelet-client",
      commonName: "kube-apiserver-kubelet-client",
      organizations: ["system:masters"],
      clock,
    }),
    ensureServiceAccountKey(dir),
  ]);
  return { ca, apiserver, kubeletClient, serviceAccount };
}

export interface ClientFileOptions {
  /** Name of the files without `.crt` and `.key`. */
  readonly file: string;
  readonly commonName: string;
  readonly organizations?: readonly string[];
  readonly clock?: Clock;
}

/** The client certificate stored in `dir` under `file`; issued if it is missing, about to expire or for another user. */
export async function ensureClientCertificate(
  dir: string,
  ca: CertificatePair,
  options: ClientFileOptions,
): Promise<CertificatePair> {
  const clock = options.clock ?? systemClock;
  const organizations = options.organizations ?? [];
  const subject = [...organizations.map((it) => `O=${it}`), `CN=${options.commonName}`].join("\n");
  const isCurrent = (found: X509Certificate): boolean => found.subject === subject;
  return ensurePair(dir, options.file, {
    isCurrent: (pair) => isUsable(pair, ca, clock, isCurrent),
    issue: async () => {
      const { issueClientCertificate } = await import("./issue.ts");
      return issueClientCertificate(ca, { commonName: options.commonName, organizations, clock });
    },
  });
}

async function ensureAuthority(dir: string, clock: Clock): Promise<CertificatePair> {
  const pair = await ensurePair(dir, "ca", {
    isCurrent: () => true,
    issue: async () => {
      const { issueAuthority } = await import("./issue.ts");
      return issueAuthority({ commonName: "kubernetes", clock });
    },
  });
  if (belongTogether(pair)) return pair;
  throw new FleetError(
    "OPTION_INVALID",
    `ca.crt and ca.key in ${dir} do not match, or one of them is damaged; restore both`,
  );
}

interface Sans {
  readonly names: readonly string[];
  readonly ips: readonly string[];
}

function ensureServerCertificate(
  dir: string,
  ca: CertificatePair,
  options: Sans & { readonly clock: Clock },
): Promise<CertificatePair> {
  return ensurePair(dir, "apiserver", {
    isCurrent: (pair) => isUsable(pair, ca, options.clock, (it) => hasExactly(it, options)),
    issue: async () => {
      const { issueServerCertificate } = await import("./issue.ts");
      return issueServerCertificate(ca, { commonName: "kube-apiserver", ...options });
    },
  });
}

async function ensureServiceAccountKey(dir: string): Promise<ClusterPki["serviceAccount"]> {
  const path = join(dir, "sa.key");
  let privateKey = await readIfPresent(path);
  if (privateKey === undefined) {
    privateKey = generatePrivateKey();
    await writeSecretFile(path, privateKey);
  }
  const publicKey = readablePublicKey(path, privateKey);
  const publicPath = join(dir, "sa.pub");
  if ((await readIfPresent(publicPath)) !== publicKey) await writeSecretFile(publicPath, publicKey);
  return { privateKey, publicKey };
}

/** Tokens that were signed with another key would become invalid, so an administrator must decide. */
function readablePublicKey(path: string, privateKey: string): string {
  try {
    return publicKeyOf(privateKey);
  } catch (cause) {
    const message = `${path} is not a private key: restore it, or remove it, and with it every ServiceAccount token`;
    throw new FleetError("OPTION_INVALID", message, { cause });
  }
}

interface PairSource {
  readonly isCurrent: (pair: CertificatePair) => boolean;
  readonly issue: () => Promise<CertificatePair>;
}

/** The key is written first: a certificate on disk means that both are there. */
async function ensurePair(dir: string, name: string, source: PairSource): Promise<CertificatePair> {
  const certPath = join(dir, `${name}.crt`);
  const keyPath = join(dir, `${name}.key`);
  const [cert, key] = await Promise.all([readIfPresent(certPath), readIfPresent(keyPath)]);
  if (cert !== undefined && key !== undefined && source.isCurrent({ cert, key })) return { cert, key };
  const pair = await source.issue();
  await writeSecretFile(keyPath, pair.key);
  await writeSecretFile(certPath, pair.cert);
  return pair;
}

function isUsable(
  pair: CertificatePair,
  ca: CertificatePair,
  clock: Clock,
  isCurrent: (certificate: X509Certificate) => boolean,
): boolean {
  if (!belongTogether(pair)) return false;
  const certificate = new X509Certificate(pair.cert);
  const isOurs = certificate.verify(new X509Certificate(ca.cert).publicKey);
  const leftMs = certificate.validToDate.getTime() - clock.now();
  // A certificate that was issued while the clock was ahead is not valid yet.
  const hasBegun = certificate.validFromDate.getTime() <= clock.now();
  return isOurs && hasBegun && leftMs > RENEW_BEFORE_MS && isCurrent(certificate);
}

function belongTogether(pair: CertificatePair): boolean {
  try {
    return new X509Certificate(pair.cert).checkPrivateKey(createPrivateKey(pair.key));
  } catch {
    return false;
  }
}

function hasExactly(certificate: X509Certificate, wanted: Sans): boolean {
  const present = (certificate.subjectAltName ?? "").split(", ").length;
  return (
    present === wanted.names.length + wanted.ips.length &&
    wanted.names.every((it) => certificate.checkHost(it, { wildcards: false }) !== undefined) &&
    wanted.ips.every((it) => certificate.checkIP(it) !== undefined)
  );
}

function wellKnownSans(clusterDomain: string): readonly string[] {
  const service = "kubernetes.default.svc";
  return [
    "kubernetes",
    "kubernetes.default",
    service,
    `${service}.${clusterDomain}`,
    "localhost",
    "127.0.0.1",
    "::1",
  ];
}

function splitSans(...lists: readonly (readonly string[])[]): Sans {
  const all = [...new Set(lists.flat())];
  return { names: all.filter((it) => isIP(it) === 0), ips: all.filter((it) => isIP(it) !== 0) };
}
