/** What "fairlead placement diff" says is what the hub then does. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { apiVersionOf, type Resource } from "@fairlead/kube/api/meta/resource.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import {
  CLUSTER_RESOURCE_PLACEMENTS,
  type ResourceSelector,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { diffOnHub } from "@fairlead/fleet/cli/placement/diff.ts";
import { readPlacement } from "@fairlead/fleet/cli/placement/read.ts";
import { ContentsCache } from "@fairlead/fleet/hub/placement/contents.ts";
import { createPlacementInformers } from "@fairlead/fleet/hub/placement/informers.ts";
import { createSelecting, type Selecting } from "@fairlead/fleet/hub/placement/selecting.ts";
import { KINDS, object } from "@fairlead/fleet/placement/selection/objects.fake.ts";
import { identifierIn, orderKey } from "@fairlead/fleet/placement/selection/select.ts";

/** Serves discovery for the kinds of the test. */
class FakeHub extends FakeKubeClient {
  override request(_method: string, path: string): Promise<unknown> {
    const kinds: readonly Resource[] = Object.values(KINDS);
    const groups = [...new Set(kinds.map((it) => it.group))].filter((it) => it !== "");
    const versions = [{ version: "v1" }];
    if (path === "/apis") return Promise.resolve({ groups: groups.map((name) => ({ name, versions })) });
    const resources = kinds
      .filter((it) => path === (it.group === "" ? "/api/v1" : `/apis/${apiVersionOf(it)}`))
      .map(({ plural, kind, namespaced }) => ({
        name: plural,
        kind,
        namespaced,
        verbs: ["get", "list", "watch"],
      }));
    return Promise.resolve({ resources });
  }
}

const STEPS = process.env["TEST_SIZE"] === "full" ? 2_000 : 400;
const { signal } = new AbortController();
const clock = new FakeClock();
const hub = new FakeHub(clock);
const rng = seededRng(13);
const web = { name: "web", namespace: undefined };
let selecting: Selecting;

beforeAll(async () => {
  const deps = { clock, rng, log: silentLogger, metrics: noMetrics };
  const informers = createPlacementInformers(hub, deps);
  const parts = { client: hub, informers, contents: new ContentsCache(hub), deps };
  selecting = createSelecting(parts, { minIntervalMs: 0, collectMs: 0 });
  hub.seed(KINDS.namespace, object(KINDS.namespace, "shop"), object(KINDS.namespace, "other"));
  hub.seed(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name: "web" },
    spec: { resourceSelectors: [selector()] },
  });
  for (const it of selecting.controllers) await it.start(signal);
  await settled();
});
afterAll(async () => {
  for (const it of selecting.controllers) await it[Symbol.asyncDispose]();
  await selecting[Symbol.asyncDispose]();
});

async function settled(): Promise<void> {
  for (let before = -1; before !== hub.writes.length;) {
    before = hub.writes.length;
    for (let turn = 0; turn < 10; turn += 1) await clock.advance(10);
  }
}

const pick = <T>(items: readonly T[]): T => items[Math.floor(rng.random() * items.length)] as T;
function selector(): ResourceSelector {
  const scopes = ["NamespaceWithResources", "NamespaceOnly"] as const;
  const of = { group: "", version: "v1", kind: "Namespace", selectionScope: pick(scopes) };
  if (rng.random() < 0.5) return { ...of, name: pick(["shop", "other", "later"]) };
  return { ...of, labelSelector: { matchLabels: { team: pick(["a", "b"]) } } };
}

/** A user does something, as the API server lets them. */
async function act(): Promise<void> {
  const namespaced = [KINDS.configMap, KINDS.secret, KINDS.service, KINDS.endpoints, KINDS.widget];
  const of: Resource = pick([...namespaced, KINDS.namespace]);
  const namespace = of.namespaced ? { namespace: pick(["shop", "other"]) } : {};
  const name = of.namespaced ? pick(["x", "y", "kube-root-ca.crt"]) : pick(["shop", "other"]);
  const key = objectKey(namespace.namespace, name);
  const labels = rng.random() < 0.5 ? { team: pick(["a", "b"]) } : null;
  const found = await hub.find(of, key);
  const data = { value: String(Math.floor(rng.random() * 3)) };
  if (found === undefined) await hub.create(of, object(of, name, { metadata: namespace, data }));
  else if (rng.random() < 0.3 && of.namespaced) await hub.delete(of, key);
  else await hub.mergePatch(of, key, { metadata: { labels }, ...(of.namespaced ? { data } : {}) });
}

const placed = async (): Promise<Map<string, string>> => {
  const latest = (await readPlacement(hub, web, signal)).snapshots.find((it) => it.isLatest);
  return new Map((latest?.objects ?? []).map((it) => [orderKey(identifierIn(it)), JSON.stringify(it)]));
};

it(`the differences that are shown are those of the next snapshot, in ${STEPS} random steps`, async () => {
  let changed = 0;
  for (let step = 0; step < STEPS; step += 1) {
    const before = await placed();
    if (step % 10 === 9)
      await hub.mergePatch(CLUSTER_RESOURCE_PLACEMENTS, objectKey(undefined, "web"), {
        spec: { resourceSelectors: [selector()] },
      });
    else await act();
    const { changes } = await diffOnHub(hub, { ...web, from: undefined, to: undefined }, signal);
    await settled();
    const after = await placed();
    const expected = new Map<string, string>();
    for (const key of new Set([...before.keys(), ...after.keys()]))
      if (before.get(key) !== after.get(key))
        expected.set(key, !before.has(key) ? "add" : after.has(key) ? "change" : "remove");
    const shown = new Map(changes.map((it) => [orderKey(it.resource), it.change]));
    expect(Object.fromEntries(shown), `step ${step}`).toEqual(Object.fromEntries(expected));
    changed += changes.length > 0 ? 1 : 0;
  }
  expect(changed).toBeGreaterThan(STEPS / 10);
});
