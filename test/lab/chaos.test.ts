/**
 * A lab in which, at random and all at once, programs die or are suspended, links are cut, Deployments are scaled, exports
 * are withdrawn and pods are deleted: no new flow reaches a wrong endpoint, each failed flow has a reason, and at the end
 * everything is exactly as it should be. In a parallel network, tunnels lose packets, relays and mappings of NATs, and keys
 * are exchanged.
 *
 * `npm run test:chaos -- --minutes 60 --seed 7` runs longer.
 */

import { afterAll, beforeAll, it } from "vitest";
import { ENDPOINT_SLICES, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { MCS_SOURCE_CLUSTER_LABEL } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { isObject } from "@fairlead/base/json.ts";
import { reign } from "./chaos.ts";
import { heal, revive } from "./fault-tools.ts";
import { FleetAddresses } from "./fleet-addresses.ts";
import { FlowChecker } from "./flow-checker.ts";
import { untilConnected } from "./parallel-lab.ts";
import { found, startLab, type TestLab } from "../support/lab-fixture.ts";
import { until } from "../support/waiting.ts";
import { makeNamespace, setReplicas } from "../support/lab-actions.ts";
import { echoDeployment, mcsExport, service } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

const SEED = Number(process.env["CHAOS_SEED"] ?? 1);
const LASTS_MS = Number(process.env["CHAOS_MINUTES"] ?? 0.7) * 60_000;
/** After each round of this length everything is repaired and checked. Unit: milliseconds. */
const ROUND_MS = 90_000;
/** For the lab, and for what comes after each round. Unit: milliseconds. */
const MORE_MS = 180_000;
const ROUNDS = Math.ceil(LASTS_MS / ROUND_MS);

const LIMITS = {
  flat: { ownLagMs: 1500, announcedMs: 10_000 },
  // Each packet is encrypted by processes that share the processors with all that is started and killed.
  nat: { flowMs: 4000, ownLagMs: 3000, announcedMs: 15_000, withdrawnMs: 3000 },
};

const EXPORTERS = ["member-1", "member-2"];
const MEMBERS = [...EXPORTERS, "member-3"];
const NAMES = ["s0", "s1"];
const REPLICAS = 2;

describeOnKernel("a lab in chaos", () => {
  let lab: TestLab;
  const checkers = new Map<string, FlowChecker>();
  const fleetAddresses = new Map<string, FleetAddresses>();
  const stack = new AsyncDisposableStack();

  beforeAll(async () => {
    lab = stack.use(await startLab({ name: "echaos", members: MEMBERS.length }));
    for (const member of MEMBERS) {
      await makeNamespace(await lab.client(member), "work");
      fleetAddresses.set(member, stack.use(await FleetAddresses.start(lab, member)));
    }
    await untilConnected(lab, MEMBERS);
    const named = NAMES.map((name) => ({ namespace: "work", name }));
    for (const member of EXPORTERS)
      await lab.apply(
        member,
        ...named.flatMap((it) => [echoDeployment(it, REPLICAS), service(it), mcsExport(it)]),
      );
    for (const it of named) {
      const checker = await FlowChecker.start(lab, {
        members: ["member-3", "member-1"],
        others: ["member-2"],
        service: it,
        ports: "both",
        limits: LIMITS[lab.topology.spec.topology],
      });
      checkers.set(it.name, stack.use(checker));
    }
    // A pod of the own cluster is used by its own address until it has one of the fleet.
    for (const [name, checker] of checkers) await untilExact(name, checker);
  }, MORE_MS);
  afterAll(() => stack.disposeAsync());

  it.each(Array.from({ length: ROUNDS }, (_, at) => SEED + 10 * at))(
    "sends no flow where it must not go, loses none without a reason, and is as it should be afterwards (seed %d)",
    async (seed) => {
      const beganMs = systemClock.now();
      const plan = { lab, exporters: EXPORTERS, members: MEMBERS, checkers, namespace: "work" };
      const log = await reign(plan, seed, Math.min(ROUND_MS, LASTS_MS));
      await heal(lab);
      await revive(lab);
      for (const name of NAMES)
        for (const member of EXPORTERS)
          await setReplicas(await lab.client(member), { namespace: "work", name }, REPLICAS);
      for (const [name, checker] of checkers) {
        await untilExact(name, checker);
        await checker.untilAnsweredBy(EXPORTERS);
      }
      for (const [name, checker] of checkers) {
        const counts = await checker.tally(beganMs);
        process.stdout.write(`${name}, seed ${seed}: ${JSON.stringify(counts)}\n`);
      }
      try {
        for (const checker of checkers.values()) await checker.expectSound(beganMs);
      } catch (error) {
        for (const { atMs, what } of log) process.stdout.write(`${atMs - beganMs} ms: ${what}\n`);
        // All of it, and at once: a run of hours shows its errors at its end, and shortens them.
        if (isObject(error)) process.stdout.write(`${JSON.stringify(error["actual"], undefined, 1)}\n`);
        throw error;
      }
    },
    ROUND_MS + MORE_MS,
  );

  /** Ready pods of the exporters, imported slices and proxies name the same addresses. */
  async function untilExact(name: string, checker: FlowChecker): Promise<void> {
    for (const importer of MEMBERS.filter((it) => it !== "member-2"))
      await until(
        `${name} in ${importer} is what its exporters have`,
        async () => {
          const own = await Promise.all(EXPORTERS.map((it) => addressesIn(it, SERVICE_NAME_LABEL, name)));
          const imported = await addressesIn(importer, "multicluster.kubernetes.io/service-name", name);
          const table = await checker.endpointsOf(importer);
          return { own: own.flat().toSorted(), imported, table };
        },
        ({ own, imported, table }) =>
          own.length === EXPORTERS.length * REPLICAS &&
          own.join() === imported.join() &&
          own.join() === table.join(),
      );
  }

  async function addressesIn(cluster: string, label: string, name: string): Promise<readonly string[]> {
    const options = { namespace: "work", labelSelector: `${label}=${name}` };
    const { items } = await (await lab.client(cluster)).list(ENDPOINT_SLICES, options);
    const known = found(fleetAddresses.get(cluster));
    return items
      .flatMap((it) =>
        (it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] ?? cluster) === cluster
          ? known.of(it)
          : (it.endpoints ?? []),
      )
      .filter((it) => it.conditions?.ready !== false)
      .flatMap((it) => it.addresses)
      .filter((it) => it.includes("."))
      .toSorted();
  }
});
