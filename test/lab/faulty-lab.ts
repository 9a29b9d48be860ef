/** A hub, two clusters that export and import a service, and one that only imports it; flows run in all three. */

import { ENDPOINT_SLICES, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { eventually } from "../support/waiting.ts";
import { heal, revive } from "./fault-tools.ts";
import { FlowChecker } from "./flow-checker.ts";
import { expectFreshStart } from "./fresh-start.ts";
import { startLab, type TestLab } from "../support/lab-fixture.ts";
import { makeNamespace, scale } from "../support/lab-actions.ts";
import { echoDeployment, graceful, mcsExport, service } from "../support/lab-manifests.ts";

export const HELLO = { namespace: "work", name: "hello" };
export const EXPORTERS = ["member-1", "member-2"] as const;
export const IMPORTER = "member-3";
export const MEMBERS = [...EXPORTERS, IMPORTER] as const;
const REPLICAS = 2;

export interface FaultyLab extends AsyncDisposable {
  readonly lab: TestLab;
  readonly checker: FlowChecker;
  readonly leaseMs: number;
  /** Waits until a fault that began has lasted so long. */
  untilTime(beganMs: number, lastsMs: number): Promise<void>;
  /** Pods of the service in one cluster. Those that go serve for a while yet, as the guide asks of servers. */
  scale(cluster: string, replicas: number): Promise<void>;
  /**
   * Runs a fault, repairs the rest of it, and checks everything: the flows since it began, that both clusters answer
   * again, and that freshly started programs would decide the same.
   */
  suffer(fault: (beganMs: number) => Promise<void>): Promise<void>;
}

export async function startFaultyLab(name: string): Promise<FaultyLab> {
  await using stack = new AsyncDisposableStack();
  const lab = stack.use(await startLab({ name, members: MEMBERS.length }));
  for (const member of MEMBERS) await makeNamespace(await lab.client(member), HELLO.namespace);
  for (const member of EXPORTERS)
    await lab.apply(member, graceful(echoDeployment(HELLO, REPLICAS)), service(HELLO), mcsExport(HELLO));
  const checker = stack.use(await FlowChecker.start(lab, { members: MEMBERS, service: HELLO }));
  await checker.untilAnsweredBy(EXPORTERS);
  const scaleIn = async (cluster: string, replicas: number): Promise<void> =>
    scale(await lab.client(cluster), HELLO, replicas);
  const held = stack.move();
  return {
    lab,
    checker,
    leaseMs: lab.topology.spec.leaseSeconds * 1000,
    scale: scaleIn,
    async untilTime(beganMs, lastsMs) {
      const leftMs = beganMs + lastsMs - systemClock.now();
      if (leftMs > 0) await delay(systemClock, leftMs, AbortSignal.timeout(lastsMs + 1000));
    },
    async suffer(fault) {
      const beganMs = systemClock.now();
      try {
        await fault(beganMs);
      } finally {
        await heal(lab);
        await revive(lab);
      }
      for (const it of EXPORTERS) {
        await scaleIn(it, REPLICAS);
        await untilGone(lab, it);
      }
      await checker.untilAnsweredBy(EXPORTERS);
      await untilImported(lab);
      await expectFreshStart(lab, { members: MEMBERS, exporters: EXPORTERS, service: HELLO });
      await checker.expectSound(beganMs);
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

/**
 * Waits until each member uses all endpoints. A pod may have the address of one that went while the hub was away: members that found it
 * silent use it after several answers.
 */
async function untilImported(lab: TestLab): Promise<void> {
  for (const member of MEMBERS)
    await eventually(await lab.client(member), ENDPOINT_SLICES, (slices) =>
      EXPORTERS.every((exporter) => {
        const of = slices.filter(
          ({ metadata: { labels } }) =>
            labels?.[MCS_SERVICE_NAME_LABEL] === HELLO.name && labels[MCS_SOURCE_CLUSTER_LABEL] === exporter,
        );
        return of.length > 0 && of.every((it) => it.endpoints?.length === REPLICAS);
      }),
    );
}

/** Waits for the end of the pods that go. */
async function untilGone(lab: TestLab, cluster: string): Promise<void> {
  await eventually(await lab.client(cluster), ENDPOINT_SLICES, (slices) =>
    slices
      .filter((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === HELLO.name)
      .every((it) => it.endpoints?.length === REPLICAS),
  );
}
