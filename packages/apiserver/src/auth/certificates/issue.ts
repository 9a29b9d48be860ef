import { createPrivateKey, type KeyObject, sign, X509Certificate } from "node:crypto";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import {
  childrenOf,
  contextTag,
  type Element,
  encode,
  encodeBits,
  encodeOid,
  encodeTime,
  readElement,
  readOid,
  sequence,
  Tag,
} from "@fairlead/base/pki/der.ts";
import { type CertificateRequest, SUBJECT_ALT_NAME } from "@fairlead/base/pki/request.ts";

/** Writes certificates (RFC 5280) at once, so that they are issued in the turn in which they were approved. */

/** Bits of the extension keyUsage, first bit first (RFC 5280, section 4.2.1.3). */
const KEY_USAGES: ReadonlyMap<string, number> = new Map([
  ["signing", 0],
  ["digital signature", 0],
  ["key encipherment", 2],
]);

const EXTENDED_KEY_USAGES: ReadonlyMap<string, string> = new Map([
  ["server auth", "1.3.6.1.5.5.7.3.1"],
  ["client auth", "1.3.6.1.5.5.7.3.2"],
]);

const RSA_SHA256 = sequence(encodeOid("1.2.840.113549.1.1.11"), Buffer.from([0x05, 0x00]));
const ECDSA_SHA256 = sequence(encodeOid("1.2.840.10045.4.3.2"));

/** Certificates are valid from a little before now, for machines whose clocks differ. Unit: milliseconds. */
const BACKDATED_MS = 300_000;
/** Shorter ones get their whole time in spite of that. Unit: milliseconds. */
const SHORT_MS = 8 * 3_600_000;

export interface IssueOptions {
  readonly usages: readonly string[];
  /** Unit: milliseconds. */
  readonly lifetimeMs: number;
  /** Unit: milliseconds since the epoch. */
  readonly nowMs: number;
  /** 16 random bytes. */
  readonly serial: Uint8Array;
}

/** Signs for an authority whose key is at hand. */
export class CertificateIssuer {
  readonly #key: KeyObject;
  readonly #algorithm: Buffer;
  readonly #issuer: Buffer;
  readonly #keyId: Buffer | undefined;
  readonly #notAfterMs: number;

  constructor(authority: CertificatePair) {
    const certificate = new X509Certificate(authority.cert);
    const fields = childrenOf(childrenOf(readElement(certificate.raw), Tag.sequence)[0], Tag.sequence);
    // tbsCertificate: version, serialNumber, signature, issuer, validity, subject, …
    this.#issuer = fields[5]?.raw ?? Buffer.alloc(0);
    this.#keyId = subjectKeyId(fields);
    this.#key = createPrivateKey(authority.key);
    this.#algorithm = this.#key.asymmetricKeyType === "rsa" ? RSA_SHA256 : ECDSA_SHA256;
    this.#notAfterMs = certificate.validToDate.getTime();
  }

  /** A certificate in PEM for what was asked; whether it may be given is the caller's to decide. */
  issue(request: CertificateRequest, { usages, lifetimeMs, nowMs, serial }: IssueOptions): string {
    const endMs = nowMs + lifetimeMs - (lifetimeMs < SHORT_MS ? 0 : BACKDATED_MS);
    const validity = sequence(
      encodeTime(nowMs - BACKDATED_MS),
      encodeTime(Math.min(endMs, this.#notAfterMs)),
    );
    const signed = sequence(
      encode(contextTag(0, "constructed"), encode(Tag.integer, Buffer.from([2]))),
      encode(Tag.integer, positive(serial)),
      this.#algorithm,
      this.#issuer,
      validity,
      nameOf(request),
      request.publicKey,
      encode(contextTag(3, "constructed"), sequence(...this.#extensions(request, usages))),
    );
    const signature = encodeBits(sign("sha256", signed, this.#key));
    const der = sequence(signed, this.#algorithm, signature);
    const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
    return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
  }

  #extensions(request: CertificateRequest, usages: readonly string[]): Buffer[] {
    const keyUsage = keyUsageBits(usages);
    const purposes = usages.flatMap((it) => EXTENDED_KEY_USAGES.get(it) ?? []).map(encodeOid);
    const names = [
      ...request.dnsNames.map((it) => encode(contextTag(2, "primitive"), Buffer.from(it))),
      ...request.ipAddresses.map((it) => encode(contextTag(7, "primitive"), it)),
    ];
    const keyId = this.#keyId === undefined ? [] : [encode(contextTag(0, "primitive"), this.#keyId)];
    return [
      ...(keyUsage === 0 ? [] : [extension("2.5.29.15", encodeKeyUsage(keyUsage), "critical")]),
      ...(purposes.length === 0 ? [] : [extension("2.5.29.37", sequence(...purposes))]),
      // No authority.
      extension("2.5.29.19", sequence(), "critical"),
      ...keyId.map((it) => extension("2.5.29.35", sequence(it))),
      ...(names.length === 0 ? [] : [extension(SUBJECT_ALT_NAME, sequence(...names))]),
    ];
  }
}

function extension(oid: string, value: Buffer, critical?: "critical"): Buffer {
  const flag = critical === undefined ? [] : [encode(Tag.boolean, Buffer.from([0xff]))];
  return sequence(encodeOid(oid), ...flag, encode(Tag.octetString, value));
}

function keyUsageBits(usages: readonly string[]): number {
  let bits = 0;
  for (const usage of usages) {
    const bit = KEY_USAGES.get(usage);
    if (bit !== undefined) bits |= 0x80 >> bit;
  }
  return bits;
}

/** Named bit lists are written without zeros at their end (X.690, section 11.2.2). */
function encodeKeyUsage(bits: number): Buffer {
  return encodeBits(Buffer.from([bits]), 31 - Math.clz32(bits & -bits));
}

/** Encodes the subject again from the validated fields: every parser reads the same name from it. */
function nameOf({ subject }: CertificateRequest): Buffer {
  const attributes = subject.map(({ oid, value }) =>
    encode(Tag.set, sequence(encodeOid(oid), encode(Tag.utf8String, Buffer.from(value)))),
  );
  return sequence(...attributes);
}

/** By which name the authority's certificate calls its key; issued ones repeat it (RFC 5280, section 4.2.1.1). */
function subjectKeyId(fields: readonly Element[]): Buffer | undefined {
  const tag = contextTag(3, "constructed");
  const extensions = fields.filter((it) => it.tag === tag).flatMap((it) => childrenOf(it, tag));
  const found = extensions
    .flatMap((it) => childrenOf(it, Tag.sequence))
    .map((it) => childrenOf(it, Tag.sequence))
    .find(([oid]) => readOid(oid) === "2.5.29.14");
  const value = found?.at(-1);
  return value === undefined ? undefined : readElement(value.content, Tag.octetString).content;
}

function positive(serial: Uint8Array): Buffer {
  const bytes = Buffer.from(serial);
  bytes[0] = 0x40 | ((bytes[0] ?? 0) & 0x3f);
  return bytes;
}
