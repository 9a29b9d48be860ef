import { randomBytes } from "node:crypto";
import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { fieldsAt, itemsAt, numberAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { timestamp } from "#registry/metadata.ts";
import type { FollowUp } from "#registry/registry.ts";
import type { ApiObject } from "#values/object.ts";
import type { Store, StoreChange, Transaction } from "#storage/store.ts";
import { MASTERS_GROUP } from "#values/authorizer.ts";
import { CertificateIssuer } from "./issue.ts";
import { type CertificateRequest, parseCertificateRequest } from "@fairlead/base/pki/request.ts";
import { SIGNERS } from "./signers.ts";
import { ofType } from "./validate.ts";

const TABLE = "certificatesigningrequests.certificates.k8s.io";
/** Longest lifetime of a certificate, and that of one without `expirationSeconds`. Unit: milliseconds. */
const MAX_LIFETIME_MS = 365 * 86_400_000;

/**
 * Signs approved requests for the signers that are built in, in the transaction of the approval. One that may not be
 * signed gets the condition Failed. Source: k8s.io/kubernetes, pkg/controller/certificates/signer.
 */
export class CertificateSigner implements FollowUp {
  readonly #store: Store;
  readonly #authority: CertificatePair;
  readonly #log: Logger;
  /** Made when the first request is approved. */
  #issuer: CertificateIssuer | undefined;
  readonly #due = new Set<string>();

  constructor(store: Store, authority: CertificatePair, log: Logger) {
    this.#store = store;
    this.#authority = authority;
    this.#log = log;
  }

  get isIdle(): boolean {
    return this.#due.size === 0;
  }

  observe({ table, key, after }: StoreChange): void {
    if (table.id !== TABLE) return;
    if (after !== undefined && isDue(after.object)) this.#due.add(key);
    else this.#due.delete(key);
  }

  collect(tx: Transaction): void {
    const names = [...this.#due];
    this.#due.clear();
    for (const name of names) this.#sign(tx, name);
  }

  #sign(tx: Transaction, name: string): void {
    const table = this.#store.table(TABLE);
    const entry = table.get(name);
    if (entry === undefined || !isDue(entry.object)) return;
    const { object } = entry;
    try {
      const status = { ...fieldsAt(object, "status"), ...this.#resultFor(object, tx.nowMs) };
      // The approval is an event of its own: it keeps its version, which is in its metadata.
      tx.put(table, name, { ...object, metadata: { ...object.metadata }, status });
    } catch (error) {
      // The approval is stored, but the requester never gets a certificate.
      this.#log.error("cannot sign a certificate", { request: name, error: messageOf(error) });
    }
  }

  /** The addition to the request's status: the certificate, or the failure. */
  #resultFor(object: ApiObject, nowMs: number): object {
    const spec = fieldsAt(object, "spec");
    const usages = stringsAt(spec, "usages");
    const request = parseCertificateRequest(
      Buffer.from(textAt(spec, "request"), "base64").toString("latin1"),
    );
    const message = whyNot(request, usages, textAt(spec, "signerName"));
    if (message !== undefined) {
      const at = timestamp(nowMs);
      const times = { lastUpdateTime: at, lastTransitionTime: at };
      const failed = { type: "Failed", status: "True", reason: "SignerValidationFailure", message, ...times };
      return { conditions: [...itemsAt(fieldsAt(object, "status"), "conditions"), failed] };
    }
    this.#issuer ??= new CertificateIssuer(this.#authority);
    const asked = (numberAt(spec, "expirationSeconds") ?? Infinity) * 1000;
    const lifetimeMs = Math.min(asked, MAX_LIFETIME_MS);
    const pem = this.#issuer.issue(request, { usages, lifetimeMs, nowMs, serial: randomBytes(16) });
    return { certificate: Buffer.from(pem).toString("base64") };
  }
}

function isDue(object: ApiObject): boolean {
  const status = fieldsAt(object, "status");
  const has = (type: string): boolean => ofType(status, type).some((it) => it["status"] === "True");
  const signer = textAt(fieldsAt(object, "spec"), "signerName");
  return SIGNERS.has(signer) && has("Approved") && !has("Failed") && textAt(status, "certificate") === "";
}

function whyNot(request: CertificateRequest, usages: readonly string[], signer: string): string | undefined {
  if (request.organizations.includes(MASTERS_GROUP)) return `group ${MASTERS_GROUP} is not allowed`;
  if (request.commonName === "") return "subject has no common name";
  return SIGNERS.get(signer)?.(request, usages);
}
