import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  CLUSTER_UPGRADES,
  type ClusterUpgradeStatus,
  UPDATE_RUNS,
  type UpdateRun,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { createUpdateInformers } from "../updates/clusters/informers.ts";
import type { HubInformers } from "../informers.ts";
import { withdrawOperation } from "./operations.ts";

const KEY = objectKey(mailboxOf("a"), "a");
const OPERATION = { id: "one-1", target: { type: "Full" as const, kubernetesVersion: "1.34.1" } };
let client: FakeKubeClient;
let informers: HubInformers;
let stop: AbortController;

beforeEach(() => {
  const clock = new FakeClock(Date.UTC(2026, 0, 1));
  client = new FakeKubeClient(clock);
  stop = new AbortController();
  const deps = { clock, log: silentLogger, rng: seededRng(1), metrics: noMetrics };
  informers = createUpdateInformers(client, deps) as HubInformers;
});
afterEach(() => stop.abort());

function ask(engine: string): void {
  client.seed(CLUSTER_UPGRADES, {
    metadata: { namespace: mailboxOf("a"), name: "a" },
    spec: { engine, operation: OPERATION },
  });
}

/** A run that upgrades the member. */
function upgrading(): UpdateRun {
  const member = { name: "a", operationId: OPERATION.id, target: OPERATION.target, attempt: 1 };
  const groups = [{ name: "g", status: {}, members: [{ ...member, status: { state: "Running" } }] }];
  return {
    metadata: { name: "one" },
    spec: { managedClusterUpdate: { upgrade: OPERATION.target } },
    status: { attempt: 1, status: { state: "Running" }, stages: [{ name: "s", status: {}, groups }] },
  } as unknown as UpdateRun;
}

async function sync(): Promise<void> {
  for (const it of [informers.clusterUpgrades, informers.updateRuns]) {
    it.start(stop.signal);
    await it.synced(stop.signal);
  }
}

const withdraw = () => withdrawOperation({ client, informers }, "a", stop.signal);
const operation = async () => (await client.get(CLUSTER_UPGRADES, KEY)).spec.operation;

async function report(state: NonNullable<ClusterUpgradeStatus["operation"]>["state"]): Promise<void> {
  const status = { operation: { id: OPERATION.id, state } };
  await client.mergePatch(CLUSTER_UPGRADES, KEY, { status }, { subresource: "status" });
}

describe("an operation that no run carries out", () => {
  it("is stopped if no program has taken it", async () => {
    ask("External");
    await sync();
    await withdraw();
    expect(await operation()).toEqual({ ...OPERATION, stop: true });
  });

  it.each(["Running", "Succeeded"] as const)(
    "continues if a program reports that it is %s",
    async (state) => {
      ask("External");
      await report(state);
      await sync();
      await withdraw();
      expect(await operation()).toEqual(OPERATION);
    },
  );

  it("continues if a program takes it in the same moment: the write is a conflict, and the next pass sees why", async () => {
    ask("External");
    await sync();
    const taking = report("Running");
    await expect(withdraw()).rejects.toMatchObject({ code: "API_CONFLICT" });
    await taking;
    expect(await operation()).toEqual(OPERATION);
  });

  it("is not begun by a member that carries it out itself, and continues there if it has begun before the member reports so", async () => {
    ask("Job:upgrade");
    await sync();
    await withdraw();
    expect(await operation()).toEqual({ ...OPERATION, withdrawn: true });
  });

  it("continues in a member that has reported it", async () => {
    ask("Job:upgrade");
    await report("Running");
    await sync();
    await withdraw();
    expect(await operation()).toEqual(OPERATION);
  });

  it.each(["External", "Job:upgrade"])(
    "is withdrawn once, and costs nothing after that: %s",
    async (engine) => {
      ask(engine);
      await sync();
      await withdraw();
      const wanted = await operation();
      const seen = () => informers.clusterUpgrades.store.get(KEY)?.spec.operation;
      await expect.poll(seen).toEqual(wanted);
      const asked = (["list", "apply"] as const).map((it) => vi.spyOn(client, it));
      await withdraw();
      expect(asked.map((it) => it.mock.calls)).toEqual([[], []]);
    },
  );
});

it("stays if a run carries it out that the cache does not have yet", async () => {
  ask("External");
  await sync();
  client.seed(UPDATE_RUNS, upgrading());
  await withdraw();
  expect(await operation()).toEqual(OPERATION);
});
