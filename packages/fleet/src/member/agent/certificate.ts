import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import {
  CERTIFICATE_SIGNING_REQUESTS,
  type CertificateSigningRequest,
  CLIENT_SIGNER,
} from "@fairlead/kube/api/certificates/v1/types.ts";
import { CERTIFICATE_SECONDS, MEMBERS_GROUP } from "#api/fairlead.dev/identity.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { isSignedByOneOf } from "@fairlead/base/pki/bundle.ts";
import { type CertificatePair, generatePrivateKey, publicKeyOf } from "@fairlead/base/pki/keys.ts";
import { createCertificateRequest } from "@fairlead/base/pki/request.ts";
import { HUB_KEYS, readCertificateLife } from "#api/fairlead.dev/hub-secret.ts";
import { keepRenewed, type RenewalParts } from "./renewal.ts";
import { changeHubSecret } from "./store.ts";

/** How the member gets a certificate. Its key is generated here and is stored only in the member's own Secret. */

/** How long hub and signer may take before the agent sends a new request. Unit: milliseconds. */
const ANSWER_TIMEOUT_MS = 300_000;
/** As `sleep` for a kubelet: certificates of one fleet are not renewed all at once. Share of a life, either way. */
const JITTER = 0.05;

export interface Asking {
  readonly hub: KubeClient;
  readonly local: KubeClient;
  readonly cluster: string;
  readonly user: string;
  readonly deps: RuntimeDeps;
}

/**
 * Gets a certificate for `user` and stores it in the Secret. The key is stored before the request is sent: a process that
 * is killed in between continues with the same request, because a join token is valid for one request only.
 *
 * @throws {FleetError} `API_FORBIDDEN` if the hub denies the request, with its message.
 */
export async function obtainCertificate(asking: Asking, signal: AbortSignal): Promise<CertificatePair> {
  const { local } = asking;
  const key = await ensureKey(local, HUB_KEYS.nextKey, signal);
  try {
    const cert = await requestCertificate(asking, key, signal);
    const fields = {
      [HUB_KEYS.certificate]: cert,
      [HUB_KEYS.key]: key,
      [HUB_KEYS.nextKey]: undefined,
      [HUB_KEYS.bootstrapToken]: undefined,
    };
    await changeHubSecret(local, (field) => (field(HUB_KEYS.nextKey) === key ? fields : undefined), signal);
    return { cert, key };
  } catch (error) {
    // A no is for good: the next request is another one.
    const drop = { [HUB_KEYS.nextKey]: undefined };
    if (hasCode(error, "API_FORBIDDEN") && !signal.aborted)
      await changeHubSecret(local, (field) => (field(HUB_KEYS.nextKey) === key ? drop : undefined), signal);
    throw error;
  }
}

/** A key that outlives this process. @param name - Of the Secret's key that holds it. */
export async function ensureKey(
  local: KubeClient,
  name: typeof HUB_KEYS.nextKey | typeof HUB_KEYS.nextHubKey,
  signal: AbortSignal,
): Promise<string> {
  let key = "";
  await changeHubSecret(
    local,
    (field) => {
      key = field(name);
      if (key !== "") return undefined;
      key = generatePrivateKey();
      return { [name]: key };
    },
    signal,
  );
  return key;
}

/** @throws {FleetError} `API_FORBIDDEN` if the hub denies the request, with its message. */
export async function requestCertificate(
  asking: Omit<Asking, "local">,
  key: string,
  signal: AbortSignal,
): Promise<string> {
  const { hub, cluster, user, deps } = asking;
  const digest = createHash("sha256").update(publicKeyOf(key)).digest("hex").slice(0, 20);
  const name = `fleet-member-${cluster}-${digest}`;
  const pem = createCertificateRequest(key, { commonName: user, organizations: [MEMBERS_GROUP] });
  const request: CertificateSigningRequest = {
    metadata: { name },
    spec: {
      request: Buffer.from(pem).toString("base64"),
      signerName: CLIENT_SIGNER,
      usages: ["digital signature", "client auth"],
      expirationSeconds: CERTIFICATE_SECONDS,
    },
  };
  try {
    await hub.create(CERTIFICATE_SIGNING_REQUESTS, request, { signal });
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
  const answered = await waitFor(
    hub,
    {
      of: CERTIFICATE_SIGNING_REQUESTS,
      key: objectKey(undefined, name),
      timeoutMs: ANSWER_TIMEOUT_MS,
      until: (it) => it === undefined || isAnswered(it),
      message: (it) =>
        `${name}: ${isApproved(it) ? "approved but not signed" : "neither approved nor denied"}`,
    },
    deps,
    signal,
  );
  if (answered === undefined)
    throw new FleetError("API_UNEXPECTED", `${name} was deleted before it was answered`, { retriable: true });
  return certificateIn(answered, key);
}

function isAnswered({ status }: CertificateSigningRequest): boolean {
  return status?.certificate !== undefined || refusalOf(status) !== undefined;
}

function isApproved(request: CertificateSigningRequest | undefined): boolean {
  return request?.status?.conditions?.some((it) => it.type === "Approved") === true;
}

type Status = CertificateSigningRequest["status"];

function refusalOf(status: Status): string | undefined {
  const no = status?.conditions?.find((it) => it.type === "Denied" || it.type === "Failed");
  return no === undefined ? undefined : (no.message ?? no.reason ?? no.type);
}

function certificateIn({ metadata, status }: CertificateSigningRequest, key: string): string {
  const refusal = refusalOf(status);
  if (refusal !== undefined)
    throw new FleetError("API_FORBIDDEN", `the hub refused the certificate (${metadata.name}): ${refusal}`);
  const cert = Buffer.from(status?.certificate ?? "", "base64").toString("utf8");
  if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return cert;
  throw new FleetError("API_FORBIDDEN", `the certificate in ${metadata.name} is for another key`);
}

/**
 * Replaces the certificate, in the holder and in the Secret, until `signal` aborts: at about two thirds of its life, and at
 * once when the hub gets other authorities in the place of those that signed it. Soon it may know the old ones no more.
 */
export async function keepCertificate(parts: RenewalParts, signal: AbortSignal): Promise<void> {
  const { hub, local, holder, deps } = parts;
  const usualShare = 2 / 3 + JITTER * (2 * deps.rng.random() - 1);
  // Its life is in the hub's time.
  const timed = { ...deps, clock: clockOfServer(hub, deps.clock) };
  let isDue = false;
  const renewal = {
    what: "certificate",
    share: () => (isDue ? 0 : usualShare),
    life: () => {
      const { proof } = holder.access;
      return proof.kind === "certificate" ? readCertificateLife(proof.pair.cert) : undefined;
    },
    renew: async () => {
      const { cluster, proof } = holder.access;
      if (proof.kind !== "certificate") return;
      const { user } = proof;
      const wasDue = isDue;
      isDue = false;
      try {
        const pair = await obtainCertificate({ hub, local, cluster, user, deps }, signal);
        holder.set({ ...holder.access, proof: { kind: "certificate", user, pair } });
      } catch (error) {
        isDue ||= wasDue;
        throw error;
      }
    },
  };
  for (;;) {
    const due = new AbortController();
    using _watch = holder.onAuthority((before) => {
      const { proof } = holder.access;
      if (proof.kind !== "certificate" || !isSignedByOneOf(before, proof.pair.cert)) return;
      isDue = true;
      due.abort();
    });
    await keepRenewed(renewal, timed, AbortSignal.any([signal, due.signal]));
    if (signal.aborted || !due.signal.aborted) return;
  }
}
