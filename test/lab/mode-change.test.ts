/** A profile that changes its mode while requests flow: they take paths that work, whatever becomes of those between the gateways. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import {
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  MESH_NETWORKS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { ENDPOINT_SLICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { annotate, makeNamespace } from "../support/lab-actions.ts";
import { found, startLab, type TestLab } from "../support/lab-fixture.ts";
import { echoDeployment, flowScript, mcsExport, service, shellPod } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { eventually, eventuallyOne, until } from "../support/waiting.ts";

const [ONE, TWO] = ["member-1", "member-2"] as const;
const MEMBERS = [ONE, TWO] as const;
const HELLO = { namespace: "work", name: "hello" };
/** What a lab calls the profile of its flat network. */
const PROFILE = objectKey(undefined, "flat");
const VIEW = "fleet-view-flat";
/** Of member-2, which has no pods of the service: each request goes to member-1. By what they ask. */
const CLIENTS = ["by-import", "by-service"] as const;

let lab: TestLab;

interface Request {
  readonly client: string;
  readonly startedAtMs: number;
  readonly text: string;
}

/** Those of member-2's clients that began since then. */
async function requestsSince(sinceMs: number): Promise<readonly Request[]> {
  const logs = await Promise.all(
    CLIENTS.map(async (client) => {
      const log = await lab.logOf(TWO, { namespace: "work", name: client });
      return log.split("\n").flatMap((line): Request[] => {
        const [, time, text = ""] = /^(\d{13}) (.*)$/.exec(line.trim()) ?? [];
        return time === undefined ? [] : [{ client, startedAtMs: Number(time), text }];
      });
    }),
  );
  return logs.flat().filter((it) => it.startedAtMs >= sinceMs);
}

const isAnswered = ({ text }: Request): boolean => text.startsWith("{");

async function failedSince(sinceMs: number): Promise<readonly string[]> {
  const failed = (await requestsSince(sinceMs)).filter((it) => !isAnswered(it));
  return failed.map(({ client, startedAtMs, text }) => `${client} ${startedAtMs - sinceMs} ms: ${text}`);
}

/** Waits until each client has made so many more requests. */
async function requests(count: number): Promise<void> {
  const sinceMs = systemClock.now();
  await until(
    `${count} requests of each client`,
    async () => Object.values(Object.groupBy(await requestsSince(sinceMs), (it) => it.client)),
    (all) => all.length === CLIENTS.length && all.every((it) => (it?.length ?? 0) >= count),
    { everyMs: 500 },
  );
}

async function setMode(mode: "flat" | "parallel"): Promise<void> {
  const spec = { network: { mode } };
  await (await lab.client("hub")).mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec });
}

/** Waits until all members are in this step. */
async function untilPhase(phase: "prepare" | "switch" | "leave" | undefined): Promise<void> {
  await eventually(
    await lab.client("hub"),
    ADDRESS_BLOCKS,
    (all) => all.length === MEMBERS.length && all.every((it) => it.spec.transition?.phase === phase),
    { namespace: VIEW, timeoutMs: 60_000 },
  );
}

async function untilReady(status: "True" | "False", reason: string): Promise<string> {
  const { status: { conditions } = {} } = await eventuallyOne(
    await lab.client("hub"),
    CLUSTER_MESH_PROFILES,
    PROFILE,
    (it) => {
      const ready = findCondition(it.status?.conditions, "Ready");
      return ready?.status === status && ready.reason === reason;
    },
  );
  return found(findCondition(conditions, "Ready")).message;
}

/** A part of the hub that refuses the endpoints of member-1 holds up the change: it stays in the step "switch". */
const HOLDING = "hold-endpoints";
async function holdEndpoints(): Promise<void> {
  const metadata = { name: HOLDING };
  const apiVersion = "admissionregistration.k8s.io/v1";
  await lab.apply(
    "hub",
    {
      apiVersion,
      kind: "ValidatingAdmissionPolicy",
      metadata,
      spec: {
        failurePolicy: "Fail",
        matchConstraints: {
          resourceRules: [
            {
              apiGroups: [ENDPOINT_SLICE_EXPORTS.group],
              apiVersions: ["*"],
              operations: ["UPDATE"],
              resources: [ENDPOINT_SLICE_EXPORTS.plural],
            },
          ],
        },
        validations: [{ expression: `object.metadata.namespace != "${mailboxOf(TWO)}"` }],
      },
    },
    {
      apiVersion,
      kind: "ValidatingAdmissionPolicyBinding",
      metadata,
      spec: { policyName: HOLDING, validationActions: ["Deny"] },
    },
  );
}

async function letGo(): Promise<void> {
  for (const kind of ["validatingadmissionpolicybinding", "validatingadmissionpolicy"])
    await lab.kubectl("hub", ["delete", kind, HOLDING]);
}

describeOnKernel("a profile that changes its mode while requests flow", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "emode", members: MEMBERS.length, flags: ["--network-policy"] });
    for (const member of MEMBERS) {
      const client = await lab.client(member);
      await makeNamespace(client, "work");
      await lab.apply(
        member,
        service(HELLO),
        ...(member === ONE
          ? [echoDeployment(HELLO, 2), mcsExport(HELLO)]
          : [
              echoDeployment({ ...HELLO, name: "other" }, 1),
              service({ ...HELLO, name: "other" }),
              mcsExport({ ...HELLO, name: "other" }),
            ]),
      );
      await annotate(client, SERVICES, HELLO, { "service.cilium.io/global": "true" });
    }
    const client = await lab.client(TWO);
    const imported = await eventuallyOne(
      client,
      MCS_SERVICE_IMPORTS,
      objectKey("work", "hello"),
      (it) => (it.spec?.ips?.length ?? 0) > 0,
    );
    const own = await client.get(SERVICES, objectKey("work", "hello"));
    const addresses = [imported.spec?.ips?.[0], own.spec?.clusterIPs?.[0]];
    for (const [at, name] of CLIENTS.entries()) {
      const script = flowScript(`http://${found(addresses[at])}/`, "own");
      await lab.apply(TWO, shellPod({ namespace: "work", name }, script));
    }
    await until(
      "requests are answered",
      async () => {
        const nowMs = systemClock.now();
        await requests(20);
        return failedSince(nowMs);
      },
      (failed) => failed.length === 0,
    );
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("sends none over paths that do not work, says which are missing, and changes without losing one when they work", async () => {
    const beganMs = systemClock.now();
    await lab.lab("link", [ONE, "--drop-udp"]);
    await setMode("parallel");
    await untilPhase("prepare");
    expect(await untilReady("False", "NoPath")).toContain("no path between member-1 and member-2");
    await requests(150);
    await untilPhase("prepare");
    expect(await failedSince(beganMs)).toEqual([]);
    await lab.lab("link", [ONE, "--reset"]);
    await untilPhase(undefined);
    await untilReady("True", "Ready");
    await requests(100);
    expect(await failedSince(beganMs)).toEqual([]);
  });

  it("says which paths are missing after the change, too", async () => {
    await lab.lab("link", [ONE, "--drop-udp"]);
    expect(await untilReady("False", "NoPath")).toContain("no path between member-1 and member-2");
    await lab.lab("link", [ONE, "--reset"]);
    await untilReady("True", "Ready");
  });

  it("loses none when it is flat for a moment only, nor when it becomes flat for good", async () => {
    const beganMs = systemClock.now();
    await setMode("flat");
    await untilPhase("leave");
    await requests(20);
    await setMode("parallel");
    await untilPhase(undefined);
    await requests(50);
    expect(await failedSince(beganMs)).toEqual([]);
    await setMode("flat");
    await eventually(await lab.client("hub"), MESH_NETWORKS, (all) => all[0]?.spec.mode === "flat", {
      namespace: VIEW,
    });
    await requests(50);
    expect(await failedSince(beganMs)).toEqual([]);
  });

  it("goes back when paths end before the change does, and loses only those that begin before the gateways see it", async () => {
    const beganMs = systemClock.now();
    await holdEndpoints();
    await setMode("parallel");
    await untilPhase("switch");
    await requests(50);
    expect(await failedSince(beganMs)).toEqual([]);
    await lab.lab("link", [ONE, "--drop-udp"]);
    await untilPhase("prepare");
    await untilReady("False", "NoPath");
    await until(
      "requests are answered again",
      async () => {
        const nowMs = systemClock.now();
        await requests(20);
        return failedSince(nowMs);
      },
      (failed) => failed.length === 0,
    );
    const backMs = systemClock.now();
    await letGo();
    await lab.lab("link", [ONE, "--reset"]);
    await untilPhase(undefined);
    await untilReady("True", "Ready");
    await requests(50);
    expect(await failedSince(backMs)).toEqual([]);
  });
});
