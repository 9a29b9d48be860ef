/** The chapters in which something changes, with the time until the change is visible everywhere. */

import { Resolver } from "node:dns/promises";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { nodeNetns } from "@fairlead/lab/places.ts";
import { requireState } from "@fairlead/lab/state.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { stateRoot } from "@fairlead/fairlead/lab/context.ts";
import { type Demo, fairlead, kubectl, streamKubectl } from "./cluster.ts";
import { watchDns, watchKernelMap } from "./latency.ts";
import { parseTry, requestLoop, summarizeOutage, type Try } from "./requests.ts";
import { IMPORTER, SERVICE_URL } from "./serving.ts";
import { countBy, say } from "./story.ts";

const GROWING = "member-1";
const DYING = "member-2";
const HEADLESS_NAME = "hello-headless.work.svc.clusterset.local";
/** Every new request must succeed from then on. Unit: milliseconds. */
const RECOVERED_AFTER_MS = 10_000;
/** How long requests continue after that, to prove it. Unit: milliseconds. */
const PROOF_MS = 2000;
/** Of 10.112.0.0/12, the last sixteenth of which is for virtual IPs. */
const POD_FLEET_ADDRESS = /^10\.(?:11[2-9]|12[0-6])\./;
const SEEN_TIMEOUT_MS = 30_000;

/** One more replica in an exporter: when its endpoint is published there, in the importer's kernel, in its DNS. */
export async function showScaling(demo: Demo): Promise<void> {
  const layout = labLayout(stateRoot(), demo.lab);
  const importer = requireState(layout, demo.lab).topology.clusters.find((it) => it.name === IMPORTER);
  const node = importer?.nodes[0];
  if (importer === undefined || node === undefined)
    throw new FleetError("LAB_INVALID", `lab ${demo.lab} has no node in ${IMPORTER}`);
  const signal = AbortSignal.any([demo.signal, AbortSignal.timeout(SEEN_TIMEOUT_MS)]);
  await using exporter = await watchReadyAddresses(demo, signal);
  const before = exporter.addresses();
  const isNew = await newAddresses(demo, exporter, importer.fleetDns.v4);
  using kernel = await watchKernelMap(
    layout.netnsOf(nodeNetns(node)),
    (text) => [...text.matchAll(/\b\d+\.\d+\.\d+\.\d+\b/g)].some((match) => isNew(match[0])),
    systemClock,
  );
  using dns = watchDns(
    importer.fleetDns.v4,
    HEADLESS_NAME,
    (addresses) => addresses.some((it) => isNew(it)),
    systemClock,
  );
  const replicas = before.size + 1;
  say(`$ kubectl --context ${GROWING} -n work scale deployment/hello --replicas=${replicas}`);
  await kubectl(demo, GROWING, ["-n", "work", "scale", "deployment/hello", `--replicas=${replicas}`]);
  const scaledAtMs = systemClock.monotonic();
  const publishedAtMs = await exporter.grown(before.size, signal);
  const [inKernelAtMs, inDnsAtMs] = await Promise.all([
    within(kernel.seen, signal, "the node's kernel map"),
    within(dns.seen, signal, "the answers of its DNS server"),
  ]);
  const since = (ms: number): string => `${Math.max(0, ms - publishedAtMs).toFixed(0)} ms`;
  say(
    `the new pod was ready after ${(publishedAtMs - scaledAtMs).toFixed(0)} ms; after that, in ${IMPORTER},`,
  );
  say(`  the kernel map of ${node.name} contained it after ${since(inKernelAtMs)}`);
  say(`  DNS returned it (headless service) after ${since(inDnsAtMs)}`);
}

/** Whether an address is that of an endpoint which the exporter has got since. */
async function newAddresses(
  { topology }: Demo,
  exporter: ReadyAddresses,
  dns: string,
): Promise<(address: string) => boolean> {
  if (topology === "flat") {
    const before = exporter.addresses();
    return (address) => exporter.addresses().has(address) && !before.has(address);
  }
  // Importers see fleet addresses of the pods.
  const resolver = new Resolver();
  resolver.setServers([dns]);
  const before = await resolver.resolve4(HEADLESS_NAME);
  return (address) => POD_FLEET_ADDRESS.test(address) && !before.includes(address);
}

async function within(seen: Promise<number>, signal: AbortSignal, where: string): Promise<number> {
  const timedOut = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () =>
      reject(
        new FleetError(
          "TIMED_OUT",
          `the new endpoint did not reach ${IMPORTER} in time: it is not in ${where}`,
        ),
      ),
    );
  });
  return await Promise.race([seen, timedOut]);
}

interface ReadyAddresses extends AsyncDisposable {
  addresses(): ReadonlySet<string>;
  /** Resolves with the time at which there were more than `size`. Unit: milliseconds on the monotonic clock. */
  grown(size: number, signal: AbortSignal): Promise<number>;
}

/** Follows the exporter's own EndpointSlices. */
async function watchReadyAddresses(demo: Demo, signal: AbortSignal): Promise<ReadyAddresses> {
  const client = connect(await loadKubeconfig(demo.kubeconfig, { context: GROWING }));
  const options = { namespace: "work", labelSelector: `${SERVICE_NAME_LABEL}=hello` };
  const informer = createInformer(client, ENDPOINT_SLICES, options, systemDeps(silentLogger));
  informer.start(signal);
  await informer.synced(signal);
  const addresses = (): ReadonlySet<string> =>
    new Set([...informer.store.list()].flatMap((it) => readyAddresses(it)));
  return {
    addresses,
    grown: (size) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (addresses().size > size) resolve(systemClock.monotonic());
        };
        informer.subscribe(look);
        signal.addEventListener("abort", () =>
          reject(new FleetError("TIMED_OUT", `the new pod did not become ready in ${GROWING}`)),
        );
        look();
      }),
    [Symbol.asyncDispose]: async () => {
      await informer[Symbol.asyncDispose]();
      await client[Symbol.asyncDispose]();
    },
  };
}

function readyAddresses(slice: EndpointSlice): readonly string[] {
  if (slice.addressType !== "IPv4") return [];
  return slice.endpoints.filter((it) => it.conditions?.ready !== false).flatMap((it) => it.addresses);
}

/** Requests continue while an exporting cluster fails; then it is restored. */
export async function showFailure(demo: Demo): Promise<void> {
  const tries: Try[] = [];
  const script = requestLoop(SERVICE_URL, 2000, 50);
  const stream = streamKubectl(
    demo,
    IMPORTER,
    ["-n", "work", "exec", "client", "--", "sh", "-c", script],
    (line) => {
      const parsed = parseTry(line);
      if (parsed !== undefined) tries.push(parsed);
    },
  );
  stream.done.catch(() => {});
  try {
    await untilTries(tries, (all) => all.length >= 10, demo.signal);
    say(`$ fairlead lab kill ${DYING}`);
    const killedAtMs = systemClock.now();
    await fairlead(["lab", "kill", DYING, "--name", demo.lab], demo.signal);
    await untilTries(
      tries,
      (all) => (all.at(-1)?.startedAtMs ?? 0) >= killedAtMs + RECOVERED_AFTER_MS + PROOF_MS,
      demo.signal,
    );
    showOutage([...tries], killedAtMs);
    say(`$ fairlead lab restore ${DYING}`);
    const restoredFrom = tries.length;
    const startMs = systemClock.monotonic();
    await fairlead(["lab", "restore", DYING, "--name", demo.lab], demo.signal);
    await untilTries(tries, (all) => all.slice(restoredFrom).some((it) => it.cluster === DYING), demo.signal);
    say(
      `${DYING} answers again ${((systemClock.monotonic() - startMs) / 1000).toFixed(1)} s after the command`,
    );
  } finally {
    stream.stop();
    await stream.done.catch(() => {});
  }
}

function showOutage(tries: readonly Try[], killedAtMs: number): void {
  const outage = summarizeOutage(tries, killedAtMs);
  const late = tries.filter(
    (it) => it.startedAtMs >= killedAtMs + RECOVERED_AFTER_MS && it.cluster === undefined,
  );
  if (late.length > 0)
    throw new FleetError(
      "LAB_INVALID",
      `${late.length} requests still failed ${RECOVERED_AFTER_MS / 1000} s after ${DYING} was killed`,
    );
  const answered = tries
    .filter((it) => it.startedAtMs >= killedAtMs)
    .flatMap((it) => (it.cluster === undefined ? [] : [it.cluster]));
  say(`of ${outage.total} requests since the kill, ${outage.failed} failed; answered: ${countBy(answered)}`);
  if (outage.lastFailureAfterMs === undefined) say("no request failed");
  else
    say(
      `the last failed request began ${(outage.lastFailureAfterMs / 1000).toFixed(1)} s after the kill; all later requests succeeded`,
    );
}

async function untilTries(
  tries: readonly Try[],
  isEnough: (tries: readonly Try[]) => boolean,
  signal: AbortSignal,
): Promise<void> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(60_000)]);
  while (!isEnough(tries)) await delay(systemClock, 20, limited);
}
