import { createPrivateKey, createPublicKey, randomBytes, type webcrypto } from "node:crypto";
import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { type Clock, systemClock } from "#clock.ts";
import { type CertificatePair, generatePrivateKey } from "./keys.ts";

/**
 * Writes certificates. The X.509 library costs some tens of milliseconds to load, so that programs reach this module by
 * `import()`, and only when there is something to issue; reading certificates needs only `node:crypto`.
 */

interface Validity {
  /** How long it is valid. Unit: days. Default: 365. */
  readonly days?: number;
  readonly clock?: Clock;
}

export interface AuthorityOptions extends Validity {
  readonly commonName: string;
}

export interface ClientCertificateOptions extends Validity {
  /** The user name in Kubernetes. */
  readonly commonName: string;
  /** The groups of the user in Kubernetes. */
  readonly organizations?: readonly string[];
}

export interface ServerCertificateOptions extends Validity {
  /** Default: the first of `names`, else of `ips`. */
  readonly commonName?: string;
  /** Organizations of the subject, for servers that are known by name to others, such as kubelets. */
  readonly organizations?: readonly string[];
  readonly names: readonly string[];
  readonly ips: readonly string[];
}

const ECDSA = { name: "ECDSA", namedCurve: "P-256" };
const SIGNATURE = { name: "ECDSA", hash: "SHA-256" };
const DAY_MS = 86_400_000;
/** Certificates are valid from a little before now, for machines whose clocks differ. Unit: milliseconds. */
const BACKDATED_MS = 300_000;

/** A new self-signed authority. */
export async function issueAuthority(options: AuthorityOptions): Promise<CertificatePair> {
  const key = generatePrivateKey();
  const subject = nameOf(options.commonName, []);
  const cert = await sign(key, {
    subject,
    issuer: subject,
    publicKey: publicKeyFor(key),
    days: options.days ?? 3650,
    clock: options.clock ?? systemClock,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(
        x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign,
        true,
      ),
      await x509.SubjectKeyIdentifierExtension.create(publicKeyFor(key)),
    ],
  });
  return { cert, key };
}

/** A certificate that identifies a client. */
export function issueClientCertificate(
  ca: CertificatePair,
  options: ClientCertificateOptions,
): Promise<CertificatePair> {
  return issueLeaf(ca, options, {
    subject: nameOf(options.commonName, options.organizations ?? []),
    usage: x509.ExtendedKeyUsage.clientAuth,
    alternativeNames: [],
  });
}

/** A certificate for a TLS server. */
export function issueServerCertificate(
  ca: CertificatePair,
  options: ServerCertificateOptions,
): Promise<CertificatePair> {
  const commonName = options.commonName ?? options.names[0] ?? options.ips[0] ?? "server";
  return issueLeaf(ca, options, {
    subject: nameOf(commonName, options.organizations ?? []),
    usage: x509.ExtendedKeyUsage.serverAuth,
    alternativeNames: [
      ...options.names.map((value) => ({ type: "dns", value }) as const),
      ...options.ips.map((value) => ({ type: "ip", value }) as const),
    ],
  });
}

interface Leaf {
  readonly subject: x509.JsonName;
  readonly usage: x509.ExtendedKeyUsage;
  readonly alternativeNames: x509.JsonGeneralNames;
}

async function issueLeaf(ca: CertificatePair, validity: Validity, leaf: Leaf): Promise<CertificatePair> {
  const key = generatePrivateKey();
  const authority = new x509.X509Certificate(ca.cert);
  const cert = await sign(ca.key, {
    subject: leaf.subject,
    issuer: authority.subjectName,
    publicKey: publicKeyFor(key),
    days: validity.days ?? 365,
    clock: validity.clock ?? systemClock,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([leaf.usage]),
      await x509.AuthorityKeyIdentifierExtension.create(authority),
      ...(leaf.alternativeNames.length === 0
        ? []
        : [new x509.SubjectAlternativeNameExtension(leaf.alternativeNames)]),
    ],
  });
  return { cert, key };
}

interface Unsigned {
  readonly subject: x509.JsonName;
  readonly issuer: x509.JsonName | x509.Name;
  readonly publicKey: webcrypto.CryptoKey;
  readonly days: number;
  readonly clock: Clock;
  readonly extensions: x509.Extension[];
}

async function sign(signingKey: string, unsigned: Unsigned): Promise<string> {
  const nowMs = unsigned.clock.now();
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: unsigned.subject,
    issuer: unsigned.issuer,
    notBefore: new Date(nowMs - BACKDATED_MS),
    notAfter: new Date(nowMs + unsigned.days * DAY_MS),
    publicKey: unsigned.publicKey,
    signingKey: createPrivateKey(signingKey).toCryptoKey(ECDSA, false, ["sign"]),
    signingAlgorithm: SIGNATURE,
    extensions: unsigned.extensions,
  });
  return `${certificate.toString("pem")}\n`;
}

function publicKeyFor(privateKey: string): webcrypto.CryptoKey {
  return createPublicKey(createPrivateKey(privateKey)).toCryptoKey(ECDSA, true, ["verify"]);
}

/** 127 random bits, positive and without leading zeros (RFC 5280, section 4.1.2.2). */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = 0x40 | ((bytes[0] ?? 0) & 0x3f);
  return bytes.toString("hex");
}

/** One attribute per relative distinguished name, as structures: no text grammar for a name to break out of. */
function nameOf(commonName: string, organizations: readonly string[]): x509.JsonName {
  return [...organizations.map((it) => ({ O: [it] })), { CN: [commonName] }];
}
