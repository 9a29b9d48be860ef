import { delay } from "@fairlead/base/clock.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { VALIDATING_WEBHOOK_CONFIGURATIONS } from "@fairlead/kube/api/admissionregistration/v1/types.ts";
import { type Secret, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Applied, KubeClient } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { WEBHOOK_SECRET } from "#api/fairlead.dev/names.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { enforcingWebhooks } from "#authz/policies/install.ts";
import {
  type CertificatePair,
  due,
  issue,
  readSecret,
  secretData,
  type WebhookCertificates,
} from "./certificates.ts";
import { type WebhookAddress, webhookConfiguration } from "./configuration.ts";
import { decide } from "./decide.ts";
import { serveWebhook } from "./server.ts";

export interface WebhookOptions {
  /** `host:port` to listen on. */
  readonly listen: string;
  /** Default: the port that it listens on, at 127.0.0.1, for an API server in the same process. */
  readonly address?: WebhookAddress;
  /** PEM. Of the API server's client certificate. Default: any client may ask. */
  readonly clientCa?: string;
}

export interface RunningWebhook extends AsyncDisposable {
  readonly port: number;
  /** Keeps the certificates and the configuration until the signal, for the leader alone. Resolves after the first attempt. */
  keep(signal: AbortSignal): Promise<void>;
}

const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, WEBHOOK_SECRET);
/** How often the leader looks whether a certificate is due. Unit: milliseconds. */
const LOOK_MS = 3_600_000;
const RETRY_MS = 5000;

/** Every replica serves, with the certificate that the Secret has; a Service spreads the requests. */
export async function runWebhook(
  client: KubeClient,
  { listen, address, clientCa }: WebhookOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<RunningWebhook> {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(
    await serveWebhook(listen, (asked, running) => decide(client, asked, running), {
      log: deps.log,
      clientCa,
    }),
  );
  const secrets = stack.use(
    createInformer(
      client,
      SECRETS,
      { namespace: FLEET_SYSTEM_NAMESPACE, fieldSelector: `metadata.name=${WEBHOOK_SECRET}` },
      deps,
    ),
  );
  secrets.subscribe(({ after }) => {
    const certificates = readSecret(after);
    if (certificates !== undefined) server.use(certificates.current);
  });
  secrets.start(signal);
  const held = stack.move();
  const { port } = server;
  return {
    port,
    keep: (leading) => {
      const attempted = Promise.withResolvers<void>();
      const onAttempt = (served?: CertificatePair): void => {
        // Not only after the informer saw it: who waits for this may be asked at once.
        if (served !== undefined) server.use(served);
        attempted.resolve();
      };
      const kept = { address: address ?? { url: `https://127.0.0.1:${port}` }, onAttempt };
      void keepWebhook(client, kept, deps, leading);
      return attempted.promise;
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

interface Kept {
  readonly address: WebhookAddress;
  /** With the certificate of a webhook that is configured. */
  readonly onAttempt?: (served?: CertificatePair) => void;
}

/** Keeps the certificates and the configuration: for the leader alone. */
export async function keepWebhook(
  client: KubeClient,
  { address, onAttempt }: Kept,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    let waitMs = LOOK_MS;
    let served: CertificatePair | undefined;
    try {
      if (!(await isLeftToOthers(client, deps, signal))) served = await ensure(client, address, deps, signal);
    } catch (error) {
      if (!signal.aborted)
        deps.log.warn("cannot keep the hub's webhook, retrying", { error: messageOf(error) });
      waitMs = RETRY_MS;
    }
    onAttempt?.(served);
    await delay(deps.clock, waitMs, signal).catch(() => {});
  }
}

/** KubeFleet's webhooks enforce the same: asking twice would only be slower. */
async function isLeftToOthers(
  client: KubeClient,
  { log }: RuntimeDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const others = await enforcingWebhooks(client, signal);
  if (others.length > 0)
    log.info("KubeFleet's webhooks guard this hub: the hub's own is not configured", {
      webhooks: others.join(", "),
    });
  return others.length > 0;
}

/** A new certificate is served only after the API server has its authority: an interrupted change continues where it was. */
async function ensure(
  client: KubeClient,
  address: WebhookAddress,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<CertificatePair | undefined> {
  const names = namesOf(address);
  let secret = await client.find(SECRETS, KEY, { signal });
  let certificates = readSecret(secret);
  const user = await ownUser(client, signal);
  const write = async (next: WebhookCertificates): Promise<void> => {
    const desired: Applied<Secret> = {
      metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: WEBHOOK_SECRET },
      data: secretData(next),
    };
    secret = await applyIfChanged(client, SECRETS, {
      current: secret,
      desired,
      fieldManager: HUB_MANAGER,
      signal,
    });
    certificates = next;
  };
  const what = due(certificates, names, deps.clock.now());
  if (what === "create" || what === "renew" || certificates === undefined) {
    const { authority, pair } = await issue(names, deps.clock);
    if (what === "create" || certificates === undefined)
      await write({ authorities: [authority], current: pair, next: undefined });
    else {
      const authorities = [authority, ...certificates.authorities.slice(0, 1)];
      await write({ authorities, current: certificates.current, next: pair });
    }
  }
  if (certificates === undefined) return undefined;
  await configure(
    client,
    webhookConfiguration(address, { caBundle: certificates.authorities.join(""), user }),
    signal,
  );
  if (certificates.next !== undefined)
    await write({ authorities: certificates.authorities, current: certificates.next, next: undefined });
  return certificates.current;
}

async function configure(
  client: KubeClient,
  desired: ReturnType<typeof webhookConfiguration>,
  signal: AbortSignal,
): Promise<void> {
  const current = await client.find(VALIDATING_WEBHOOK_CONFIGURATIONS, keyOf(desired), { signal });
  await applyIfChanged(client, VALIDATING_WEBHOOK_CONFIGURATIONS, {
    current,
    desired,
    fieldManager: HUB_MANAGER,
    signal,
  });
}

function namesOf(address: WebhookAddress): readonly string[] {
  if ("url" in address) return [new URL(address.url).hostname.replace(/^\[|\]$/g, "")];
  const { name, namespace } = address.service;
  return [`${name}.${namespace}.svc`];
}

/** The name by which the API server knows this program: its own writes do not wait for it. */
async function ownUser(client: KubeClient, signal: AbortSignal): Promise<string> {
  const review = await client.request(
    "POST",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" },
    { signal },
  );
  const status = isObject(review) && isObject(review["status"]) ? review["status"] : {};
  const user = isObject(status["userInfo"]) ? status["userInfo"]["username"] : undefined;
  if (typeof user === "string" && user !== "") return user;
  throw new Error("the API server did not report who the hub is");
}
