import { defined } from "@fairlead/base/defined.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MEMBER_CRDS } from "#api/crds.ts";
import { APPLIED_WORK_CRD } from "#api/placement.kubernetes-fleet.io/work-crds.ts";
import { type Secret, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { BOOTSTRAP_SECONDS } from "#api/fairlead.dev/identity.ts";
import { HUB_SECRET } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { abortable, untilAborted } from "@fairlead/base/abortable.ts";
import { delay } from "@fairlead/base/clock.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { awaitCrds } from "@fairlead/kube/definitions/crds.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { ClusterAddress } from "../membership/built-in-properties.ts";
import { type Member, startMember } from "../member.ts";
import type { ImportCreator } from "../session.ts";
import type { CompileHealth } from "#placement/work/health.ts";
import type { Probe } from "../probes/tcp.ts";
import { followAuthority } from "./authority.ts";
import { keepCertificate, obtainCertificate } from "./certificate.ts";
import { AccessHolder, hubConfig } from "./holder.ts";
import { followNextHub } from "./next-hub.ts";
import { type HubAccess, isChangedByOthers, isSameHub, readHubSecret } from "#api/fairlead.dev/hub-secret.ts";
import { keepToken } from "./token.ts";

export interface AgentOptions {
  readonly local: KubeClient;
  readonly connectHub: (config: ClusterConfig) => KubeClient;
  readonly deps: RuntimeDeps;
  /** Called whenever the member's controllers run, and with undefined when they end. */
  readonly onMember?: (member: Member | undefined) => void;
  readonly probe?: Probe;
  /** Beginnings of the annotations that a MultiClusterService passes on to its load balancer. Default: known clouds'. */
  readonly passOn?: readonly string[];
  /** The creator of ServiceImports. Default: "automatic". */
  readonly imports?: ImportCreator;
  /** Repository of the images of `fairlead node`, without a tag. Default: this member installs none. */
  readonly nodeImage?: string;
  /** Whether all that reach a node's addresses may read the metrics of its `fairlead node`. Default: false. */
  readonly exposeNodeMetrics?: boolean;
  /** Whether it applies what is placed on it. Default: false. */
  readonly placement?: boolean;
  /** Compiles the health rules of placements. Default: they are not evaluated. */
  readonly compileHealth?: CompileHealth;
  /** Whether it reports the namespaces of the cluster, by which ResourcePlacements pick clusters. Default: false. */
  readonly collectNamespaces?: boolean;
  /** Whether new pods wait for the agents of their nodes, as `StartupTaints` brings about. Default: false. */
  readonly startupTaint?: boolean;
  /** Image, without a tag, of the upgrades by Plans of the system-upgrade-controller. Default: Rancher's, by the version. */
  readonly upgradeImage?: string;
  /** How others reach the API server of this cluster. Default: not reported. */
  readonly address?: ClusterAddress;
}

/** Between two attempts to take part, growing; a change of the Secret ends the pause. Unit: milliseconds. */
const RETRY_MS = { min: 1000, max: 300_000 };
/** The longest of these pauses while the hub does not answer: nothing else finds out that it is back. Unit: milliseconds. */
const UNREACHABLE_RETRY_MS = 5000;

/**
 * Takes part in the fleet that the Secret `fleet-system/fairlead-hub` names: waits for the Secret, follows its changes,
 * and restarts when it names another hub. Returns when `signal` aborts.
 */
export async function runAgent(options: AgentOptions, signal: AbortSignal): Promise<void> {
  const { local, deps } = options;
  const remedy = 'run "fairlead join", which installs them, or apply the manifests of docs/reference/crds';
  const wait = { crds: MEMBER_CRDS, fieldManager: MEMBER_MANAGER, remedy };
  await awaitCrds(
    local,
    { ...wait, crds: MEMBER_CRDS.filter((it) => it !== APPLIED_WORK_CRD) },
    deps,
    signal,
  );
  // Without it the cluster takes part in all but placements, and reports that it failed to join as one that applies them.
  awaitCrds(local, wait, deps, signal).catch((error: unknown) => {
    if (!signal.aborted) deps.log.error("cannot apply what is placed", { error: messageOf(error) });
  });
  await using secrets = createInformer(
    local,
    SECRETS,
    { namespace: FLEET_SYSTEM_NAMESPACE, fieldSelector: `metadata.name=${HUB_SECRET}` },
    deps,
  );
  secrets.start(signal);
  await secrets.synced(signal);
  let retryMs = RETRY_MS.min;
  while (!signal.aborted) {
    try {
      const access = await nextAccess(secrets, deps, signal);
      if (access.proof.kind === "bootstrap") await enrol(options, secrets, access, signal);
      else await runSession(options, secrets, access, signal);
      retryMs = RETRY_MS.min;
    } catch (error) {
      if (signal.aborted) return;
      deps.log.error("member agent failed, retrying", { error: messageOf(error) });
      const maxMs = hasCode(error, "API_UNAVAILABLE") ? UNREACHABLE_RETRY_MS : RETRY_MS.max;
      await pause(secrets, Math.min(retryMs, maxMs), deps, signal);
      retryMs = Math.min(maxMs, retryMs * 2);
    }
  }
}

/** Waits for a time, or until the Secret changes: another `fairlead join` may have fixed the problem. */
async function pause(
  secrets: Informer<Secret>,
  pauseMs: number,
  { clock }: RuntimeDeps,
  signal: AbortSignal,
): Promise<void> {
  const changed = new AbortController();
  using _watch = secrets.subscribe(({ before, after }) => {
    if (isChangedByOthers(before, after)) changed.abort();
  });
  // Cut short by either signal: the caller looks again.
  await delay(clock, pauseMs, AbortSignal.any([signal, changed.signal])).catch(() => {});
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
  let reported: string | undefined;
  const look = (): void => {
    const secret = currentAccess(secrets);
    const read = secret === undefined ? undefined : readHubSecret(secret);
    if (read?.kind === "access") {
      found.resolve(read.access);
      return;
    }
    const why = read === undefined ? "the cluster has not joined a fleet yet" : read.problem;
    if (why !== reported) deps.log.info("waiting for the Secret that names the hub", { why });
    reported = why;
  };
  using _watch = secrets.subscribe(look);
  look();
  return await abortable(found.promise, signal);
}

/** Exchanges the join token for a certificate. Ends when the Secret is changed, by this or by another process. */
async function enrol(
  { local, connectHub, deps }: AgentOptions,
  secrets: Informer<Secret>,
  access: HubAccess,
  signal: AbortSignal,
): Promise<void> {
  const { cluster, server, proof } = access;
  if (proof.kind !== "bootstrap") return;
  const log = deps.log.child({ member: cluster, hub: server });
  const changed = new AbortController();
  using _watch = secrets.subscribe(({ after }) => {
    const read = after === undefined ? undefined : readHubSecret(after);
    const isAsBefore =
      read?.kind === "access" && isSameHub(read.access, access) && read.access.ca === access.ca;
    if (!isAsBefore) changed.abort();
  });
  const running = AbortSignal.any([signal, changed.signal]);
  log.info("requesting a certificate from the hub", { user: proof.user });
  await using hub = connectHub(hubConfig(access, new AccessHolder(access)));
  try {
    await obtainCertificate({ hub, local, cluster, user: proof.user, deps: { ...deps, log } }, running);
    log.info("received a certificate from the hub", { user: proof.user });
  } catch (error) {
    if (changed.signal.aborted && !signal.aborted) return;
    if (!hasCode(error, "API_UNAUTHORIZED")) throw error;
    throw new FleetError(
      "API_UNAUTHORIZED",
      `the hub rejected the join token, which is valid for ${BOOTSTRAP_SECONDS / 60} minutes and one ` +
        `certificate; run "fairlead join ${cluster}" again`,
    );
  }
  await untilCertified(secrets, changed.signal, signal);
}

/** The Secret was written; the watch has to bring it before it is read again. */
function untilCertified(secrets: Informer<Secret>, changed: AbortSignal, signal: AbortSignal): Promise<void> {
  const isSeen = (): boolean => {
    const secret = currentAccess(secrets);
    const read = secret === undefined ? undefined : readHubSecret(secret);
    return read?.kind !== "access" || read.access.proof.kind !== "bootstrap";
  };
  if (isSeen() || changed.aborted) return Promise.resolve();
  return untilAborted(AbortSignal.any([changed, signal]));
}

/** Until the Secret goes or names another hub, or the hub was restored from a backup. */
async function runSession(
  options: AgentOptions,
  secrets: Informer<Secret>,
  access: HubAccess,
  signal: AbortSignal,
): Promise<void> {
  const { local, connectHub, deps, onMember = () => {} } = options;
  const { cluster, server } = access;
  const log = deps.log.child({ member: cluster, hub: server });
  const ended = new AbortController();
  const running = AbortSignal.any([signal, ended.signal]);
  const holder = new AccessHolder(access);
  const follow = (secret: Secret | undefined): void => {
    const read = secret === undefined ? undefined : readHubSecret(secret);
    if (read?.kind === "access" && isSameHub(read.access, access)) holder.set(read.access);
    else ended.abort();
  };
  using _watch = secrets.subscribe(({ after }) => follow(after));
  // It may have changed between the moment it was read and the one it is watched.
  follow(currentAccess(secrets));
  if (running.aborted) return;
  await using hub = connectHub(hubConfig(access, holder));
  const parts = { hub, local, holder, deps: { ...deps, log } };
  const kept = Promise.all([
    keepToken({ ...parts, cluster }, running),
    keepCertificate(parts, running),
    followAuthority(parts, running),
  ]);
  // Without these tasks the session would end when its credentials expire; their error is reported below.
  kept.catch(() => ended.abort());
  try {
    await using member = await startMember(
      {
        cluster,
        local,
        hub,
        deps: { ...deps, log },
        onRestored: () => {
          log.warn("the hub was restored from a backup: reading everything again");
          ended.abort();
        },
        ...(options.probe === undefined ? {} : { probe: options.probe }),
        ...defined({ passOn: options.passOn, imports: options.imports, nodeImage: options.nodeImage }),
        ...defined({
          placement: options.placement,
          address: options.address,
          collectNamespaces: options.collectNamespaces,
          startupTaint: options.startupTaint,
          exposeNodeMetrics: options.exposeNodeMetrics,
          upgradeImage: options.upgradeImage,
          compileHealth: options.compileHealth,
        }),
      },
      running,
    );
    log.info("taking part in the fleet");
    onMember(member);
    const { internalMembers } = member.session.mailbox;
    await followNextHub({ ...parts, internalMembers, connectHub }, running);
    onMember(undefined);
  } catch (error) {
    if (!running.aborted && !hasCode(error, "ABORTED")) throw error;
  } finally {
    ended.abort();
    await kept;
    log.info("no longer taking part in the fleet");
  }
}
