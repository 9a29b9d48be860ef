import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import {
  childrenOf,
  contextTag,
  DerError,
  type Element,
  encode,
  encodeBits,
  encodeOid,
  expectTag,
  readElement,
  readElements,
  readOid,
  sequence,
  Tag,
} from "./der.ts";

/** Requests for certificates: PKCS #10 (RFC 2986) in PEM. */

export interface NameAttribute {
  readonly oid: string;
  readonly value: string;
}

export interface CertificateRequest {
  /** Attributes of the subject in their order. */
  readonly subject: readonly NameAttribute[];
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** SubjectPublicKeyInfo in DER. */
  readonly publicKey: Buffer;
  readonly dnsNames: readonly string[];
  /** As the request has them: 4 or 16 bytes. */
  readonly ipAddresses: readonly Buffer[];
  readonly emails: readonly string[];
  readonly uris: readonly string[];
  /** Whether there are alternative names of further kinds. */
  readonly hasOtherNames: boolean;
}

const COMMON_NAME = "2.5.4.3";
const ORGANIZATION = "2.5.4.10";
const EXTENSION_REQUEST = "1.2.840.113549.1.9.14";
export const SUBJECT_ALT_NAME = "2.5.29.17";

/** Hash by signature algorithm; null: the algorithm has its own. SHA-1 and older are not taken. */
const HASHES: ReadonlyMap<string, string | null> = new Map([
  ["1.2.840.113549.1.1.11", "sha256"],
  ["1.2.840.113549.1.1.12", "sha384"],
  ["1.2.840.113549.1.1.13", "sha512"],
  ["1.2.840.10045.4.3.2", "sha256"],
  ["1.2.840.10045.4.3.3", "sha384"],
  ["1.2.840.10045.4.3.4", "sha512"],
  ["1.3.101.112", null],
]);

const PEM = /-----BEGIN ([^-\r\n]+)-----\r?\n([A-Za-z0-9+/=\r\n\t ]*)-----END ([^-\r\n]+)-----/;

/**
 * Parses a request and checks that its creator has the key.
 *
 * @throws {DerError} What is wrong with it.
 */
export function parseCertificateRequest(pem: string): CertificateRequest {
  const [, begin, body = "", end] = PEM.exec(pem) ?? [];
  if (begin !== "CERTIFICATE REQUEST" || end !== begin) {
    throw new DerError("PEM block type must be CERTIFICATE REQUEST");
  }
  const [info, algorithm, signature] = childrenOf(readElement(Buffer.from(body, "base64")), Tag.sequence);
  const [version, subject, publicKey, attributes] = childrenOf(info, Tag.sequence);
  expectTag(version, Tag.integer);
  const key = readPublicKey(expectTag(publicKey, Tag.sequence).raw);
  checkSignature(expectTag(info, Tag.sequence).raw, key, { algorithm, signature });
  const names = parseName(subject);
  return {
    subject: names,
    commonName: names.findLast((it) => it.oid === COMMON_NAME)?.value ?? "",
    organizations: names.filter((it) => it.oid === ORGANIZATION).map((it) => it.value),
    publicKey: expectTag(publicKey, Tag.sequence).raw,
    ...parseAlternativeNames(attributes),
  };
}

function readPublicKey(der: Buffer): KeyObject {
  try {
    return createPublicKey({ key: der, format: "der", type: "spki" });
  } catch (cause) {
    throw new DerError("x509: failed to parse public key", { cause });
  }
}

function checkSignature(
  signed: Buffer,
  key: KeyObject,
  by: { readonly algorithm: Element | undefined; readonly signature: Element | undefined },
): void {
  const hash = HASHES.get(readOid(childrenOf(by.algorithm, Tag.sequence)[0]));
  if (hash === undefined) throw new DerError("x509: cannot verify signature: algorithm unimplemented");
  const { content } = expectTag(by.signature, Tag.bitString);
  if (!isSignature(hash, signed, key, content.subarray(1)))
    throw new DerError("x509: signature is not valid");
}

function isSignature(hash: string | null, signed: Buffer, key: KeyObject, signature: Buffer): boolean {
  try {
    return verify(hash, signed, key, signature);
  } catch {
    // A key of another kind than the algorithm's.
    return false;
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });
/** UTF8String, NumericString, PrintableString, IA5String: all are written as UTF-8. */
const TEXT_TAGS = new Set([Tag.utf8String, 0x12, 0x13, 0x16]);

function parseName(name: Element | undefined): readonly NameAttribute[] {
  return childrenOf(name, Tag.sequence)
    .flatMap((it) => childrenOf(it, Tag.set))
    .map((it) => {
      const [oid, value] = childrenOf(it, Tag.sequence);
      if (value === undefined || !TEXT_TAGS.has(value.tag)) {
        throw new DerError("x509: the subject has a value that is not text");
      }
      return { oid: readOid(oid), value: readText(value.content) };
    });
}

/** Refuses characters that a reader of the certificate could take for an end of text or a new line. */
function readText(content: Buffer): string {
  let text: string;
  try {
    text = UTF8.decode(content);
  } catch (cause) {
    throw new DerError("x509: text is not valid UTF-8", { cause });
  }
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  if (/[\x00-\x1f\x7f]/.test(text)) throw new DerError("x509: text has control characters");
  return text;
}

type AlternativeNames = Pick<
  CertificateRequest,
  "dnsNames" | "ipAddresses" | "emails" | "uris" | "hasOtherNames"
>;

const EMAIL = contextTag(1, "primitive");
const DNS = contextTag(2, "primitive");
const URI = contextTag(6, "primitive");
const IP = contextTag(7, "primitive");

function parseAlternativeNames(attributes: Element | undefined): AlternativeNames {
  const names = alternativeNamesOf(attributes);
  const texts = (tag: number): string[] =>
    names.filter((it) => it.tag === tag).map((it) => readText(it.content));
  const ipAddresses = names.filter((it) => it.tag === IP).map((it) => it.content);
  if (ipAddresses.some((it) => it.length !== 4 && it.length !== 16)) {
    throw new DerError("x509: cannot parse IP address");
  }
  return {
    dnsNames: texts(DNS),
    ipAddresses,
    emails: texts(EMAIL),
    uris: texts(URI),
    hasOtherNames: names.some((it) => ![EMAIL, DNS, URI, IP].includes(it.tag)),
  };
}

function alternativeNamesOf(attributes: Element | undefined): readonly Element[] {
  if (attributes === undefined) return [];
  const extensions = childrenOf(attributes, contextTag(0, "constructed"))
    .map((it) => childrenOf(it, Tag.sequence))
    .filter(([oid]) => readOid(oid) === EXTENSION_REQUEST)
    .flatMap(([, values]) => childrenOf(values, Tag.set))
    .flatMap((it) => childrenOf(it, Tag.sequence))
    .map((it) => childrenOf(it, Tag.sequence));
  return extensions
    .filter(([oid]) => readOid(oid) === SUBJECT_ALT_NAME)
    .flatMap((parts) => {
      const value = expectTag(parts.at(-1), Tag.octetString);
      return readElements(readElement(value.content, Tag.sequence).content);
    });
}

const ECDSA_SHA256 = "1.2.840.10045.4.3.2";

/** A request in PEM for a client's certificate, signed with the P-256 key (PKCS #8 in PEM) that it is for. */
export function createCertificateRequest(
  privateKey: string,
  subject: { readonly commonName: string; readonly organizations: readonly string[] },
): string {
  const key = createPrivateKey(privateKey);
  const attribute = (oid: string, value: string): Buffer =>
    encode(Tag.set, sequence(encodeOid(oid), encode(Tag.utf8String, Buffer.from(value))));
  const info = sequence(
    encode(Tag.integer, Buffer.from([0])),
    sequence(
      ...subject.organizations.map((it) => attribute(ORGANIZATION, it)),
      attribute(COMMON_NAME, subject.commonName),
    ),
    createPublicKey(key).export({ type: "spki", format: "der" }),
    encode(contextTag(0, "constructed")),
  );
  const signature = encodeBits(sign("sha256", info, key));
  const der = sequence(info, sequence(encodeOid(ECDSA_SHA256)), signature);
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE REQUEST-----\n${lines.join("\n")}\n-----END CERTIFICATE REQUEST-----\n`;
}
