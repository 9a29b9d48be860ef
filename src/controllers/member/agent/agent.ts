import { MEMBER_CRDS } from "#api/crds/all.ts";
import { type Secret, SECRETS } from "#api/core/v1/types.ts";
import { HUB_SECRET } from "#api/fairlead.dev/names.ts";
import { objectKey } from "#api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { hasCode, messageOf } from "#base/errors.ts";
import { delay } from "#base/clock.ts";
import type { ClusterConfig } from "#kube/config.ts";
import { awaitCrds } from "#kube/crds.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { createInformer } from "#kube/informer.ts";
import type { Informer, KubeClient } from "#kube/types.ts";
import { MEMBER_MANAGER } from "../informers.ts";
import { type Member, startMember } from "../member.ts";
import type { Probe } from "../probes/tcp.ts";
import { type HubAccess, isSameHub, readHubSecret } from "./hub-secret.ts";
import { keepToken, TokenHolder } from "./token.ts";

export interface AgentOptions {
  readonly local: KubeClient;
  readonly connectHub: (config: ClusterConfig) => KubeClient;
  readonly deps: RuntimeDeps;
  /** Called whenever the member's controllers run, and with undefined when they end. */
  readonly onMember?: (member: Member | undefined) => void;
  readonly probe?: Probe;
}

/** Between two attempts to reach a hub for the first time. Unit: milliseconds. */
const RETRY_MS = 1000;

/**
 * Takes part in a fleet for as long as the Secret `fleet-system/fairlead-hub` says in which: waits for it, follows its
 * changes, and begins anew when it names another hub. Returns when `signal` aborts.
 */
export async function runAgent(options: AgentOptions, signal: AbortSignal): Promise<void> {
  const { local, deps } = options;
  const remedy = 'run "fairlead join", which installs them, or apply the manifests of docs/reference/crds';
  await awaitCrds(local, { crds: MEMBER_CRDS, fieldManager: MEMBER_MANAGER, remedy }, deps, signal);
  await using secrets = createInformer(
    local,
    SECRETS,
    { namespace: FLEET_SYSTEM_NAMESPACE, fieldSelector: `metadata.name=${HUB_SECRET}` },
    deps,
  );
  secrets.start(signal);
  await secrets.synced(signal);
  while (!signal.aborted) {
    try {
      const access = await nextAccess(secrets, deps, signal);
      await runSession(options, secrets, access, signal);
    } catch (error) {
      if (signal.aborted) return;
      deps.log.error("the member could not take part in its fleet", { error: messageOf(error) });
      await delay(deps.clock, RETRY_MS, signal).catch(() => {});
    }
  }
}

function currentAccess(secrets: Informer<Secret>): Secret | undefined {
  return secrets.store.get(objectKey(FLEET_SYSTEM_NAMESPACE, HUB_SECRET));
}

/** Resolves with the first Secret that can be used. */
async function nextAccess(
  secrets: Informer<Secret>,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<HubAccess> {
  const found = Promise.withResolvers<HubAccess>();
  let told: string | undefined;
  const look = (): void => {
    const secret = currentAccess(secrets);
    const read = secret === undefined ? undefined : readHubSecret(secret);
    if (read?.kind === "access") {
      found.resolve(read.access);
      return;
    }
    const why = read === undefined ? "the cluster has not joined a fleet yet" : read.problem;
    if (why !== told) deps.log.info("waiting for the Secret that names the hub", { why });
    told = why;
  };
  using _watch = secrets.subscribe(look);
  const onAbort = (): void => found.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  look();
  try {
    return await found.promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Until the Secret goes or names another hub. */
async function runSession(
  options: AgentOptions,
  secrets: Informer<Secret>,
  access: HubAccess,
  signal: AbortSignal,
): Promise<void> {
  const { local, connectHub, deps, onMember = () => {} } = options;
  const { cluster, server, ca } = access;
  const log = deps.log.child({ member: cluster, hub: server });
  const ended = new AbortController();
  const running = AbortSignal.any([signal, ended.signal]);
  const holder = new TokenHolder(access.token);
  using _watch = secrets.subscribe(({ after }) => {
    const read = after === undefined ? undefined : readHubSecret(after);
    if (read?.kind === "access" && isSameHub(read.access, access)) holder.set(read.access.token);
    else ended.abort();
  });
  // It may have changed between the moment it was read and the one it is watched.
  const now = currentAccess(secrets);
  if (now === undefined) return;
  await using hub = connectHub({
    name: `hub of ${cluster}`,
    server,
    ...(ca === undefined ? {} : { ca }),
    credentials: holder,
  });
  const tokens = keepToken({ hub, local, cluster, holder, deps: { ...deps, log } }, running);
  try {
    await using member = await startMember(
      {
        cluster,
        local,
        hub,
        deps: { ...deps, log },
        ...(options.probe === undefined ? {} : { probe: options.probe }),
      },
      running,
    );
    log.info("taking part in the fleet");
    onMember(member);
    await untilAborted(running);
    onMember(undefined);
  } catch (error) {
    if (!running.aborted && !hasCode(error, "ABORTED")) throw error;
  } finally {
    ended.abort();
    await tokens;
    log.info("no longer taking part in the fleet");
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
