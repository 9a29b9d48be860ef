/** Faults one after another in one lab, each until `fairlead status`, or an Event, names its cause. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { derivedServiceName } from "@fairlead/fleet/api/fairlead.dev/cluster-names.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { EVENTS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { annotate, makeNamespace, scale, setReplicas } from "../support/lab-actions.ts";
import { runFairlead, startLab, type TestLab } from "../support/lab-fixture.ts";
import { echoDeployment, fleetExport, KINDS, service } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { until } from "../support/waiting.ts";
import { cut, die, heal, revive } from "./fault-tools.ts";

const EXPORTER = "member-1";
const IMPORTER = "member-2";
const work = (name: string) => ({ namespace: "work", name });
const HELLO = work("hello");
const KEY = objectKey("work", "hello");
/** A fault of one Service is in its line; the pods of all are those of `hello`. */
const OF_HELLO = { selector: { app: "hello" } };

interface Fault {
  readonly what: string;
  inject(): Promise<unknown>;
  undo(): Promise<unknown>;
  /** The cause in the output of `look`. */
  readonly words: RegExp;
  /** Default: `fairlead status -o wide`. */
  readonly look?: () => Promise<string>;
}

let lab: TestLab;
const figures: string[] = [];
let deleted: string | undefined;

async function status(): Promise<string> {
  const args = ["status", "--hub-kubeconfig", lab.layout.kubeconfig, "--hub-context", "hub", "-o", "wide"];
  const { stdout, stderr } = await runFairlead(lab.stateRoot, args, { allowFailure: true });
  return `${stdout}${stderr}`;
}

const HEADS = /^(?:CLUSTERS NOT HEALTHY|LINKS CUT|SERVICES NOT SERVED|CONFLICTS|INVALID EXPORTS)$/m;

/** Whether the service is served and no section of problems is printed. */
function isInOrder(text: string): boolean {
  const isServed = /^work\/hello .*member-1\(fleet:1\) +member-1,member-2 /m.test(text);
  return isServed && !HEADS.test(text) && !text.includes("is not running");
}

/** The messages of Events about one object of the importer. */
async function eventsOf(name: string): Promise<string> {
  const { items } = await (await lab.client(IMPORTER)).list(EVENTS, { namespace: "work" });
  return items
    .filter((it) => it.involvedObject.name === name)
    .map((it) => `${it.reason}: ${it.message}`)
    .join("\n");
}

async function remove(cluster: string, name: string): Promise<void> {
  for (const kind of [KINDS.fleetExport, "service", "deployment"])
    await lab.kubectl(cluster, ["-n", "work", "delete", kind, name, "--ignore-not-found"]);
}

/** An export that is wrong from its beginning. */
function wrongExport(what: string, name: string, objects: readonly object[], words: RegExp): Fault {
  return {
    what,
    inject: () => lab.apply(EXPORTER, ...objects, fleetExport(work(name))),
    undo: () => remove(EXPORTER, name),
    words,
  };
}

async function select(app: string): Promise<void> {
  await (await lab.client(EXPORTER)).mergePatch(SERVICES, KEY, { spec: { selector: { app } } });
}

async function annotateExport(annotation: Readonly<Record<string, string | null>>): Promise<void> {
  await annotate(await lab.client(EXPORTER), FLEET_SERVICE_EXPORTS, HELLO, annotation);
}

const derived = (): string => derivedServiceName("work", "hello");

/** The echo server with a probe of a port on which nothing listens. */
function unready(name: string): object {
  const whole = JSON.stringify(echoDeployment(work(name), 1));
  return JSON.parse(whole.replace(`"port":"http"`, `"port":9`)) as object;
}

function killed(program: string, words: RegExp): Fault {
  return {
    what: `${program} is killed`,
    inject: () => die(lab, program),
    undo: () => revive(lab, program),
    words,
  };
}

const oneWay = (from: string, to: string): Fault => ({
  what: `packets from ${from} to ${to} are lost`,
  inject: () => cut(lab, { from, to }),
  undo: () => heal(lab),
  words: /LINKS CUT\n +\S+ to \S+: .* the link between them is cut/,
});

const FAULTS: readonly Fault[] = [
  {
    what: "a Deployment is scaled to 0",
    inject: async () => setReplicas(await lab.client(EXPORTER), HELLO, 0),
    undo: async () => scale(await lab.client(EXPORTER), HELLO, 1),
    words: /work\/hello: member-1: no endpoints: Deployment hello is scaled to 0 replicas/,
  },
  {
    what: "a selector matches no pod",
    inject: () => select("helo"),
    undo: () => select("hello"),
    words: /work\/hello: member-1: no endpoints: no pod matches the selector app=helo of the Service/,
  },
  wrongExport(
    "a readiness probe asks a wrong port",
    "unready",
    [unready("unready"), service(work("unready"))],
    /work\/unready: member-1: no endpoint is ready: pod unready-\S+ is not ready: container \S+ does not pass its readiness probe, a (?:GET|connection).* port 9$/m,
  ),
  wrongExport("a Service that is exported is missing", "absent", [], /INVALID EXPORTS\n +member-1: .*absent/),
  {
    what: "two exporters have other ports",
    inject: () => lab.apply(IMPORTER, service(HELLO, { http: 81 }), fleetExport(HELLO)),
    undo: () => remove(IMPORTER, "hello"),
    words: /CONFLICTS\n +work\/hello: .*member-2/,
  },
  {
    what: "an importer does not have the namespace",
    async inject() {
      const at = { namespace: "lonely", name: "hello" };
      await makeNamespace(await lab.client(EXPORTER), "lonely");
      await lab.apply(EXPORTER, service(at), fleetExport(at));
    },
    undo: () => lab.kubectl(EXPORTER, ["delete", "namespace", "lonely"]),
    words: /NAMESPACES NOT IMPORTED\n +lonely: member-2 cannot import its services/,
  },
  {
    what: "a user deletes a ServiceImport",
    async inject() {
      const client = await lab.client(IMPORTER);
      deleted = (await client.get(MCS_SERVICE_IMPORTS, KEY)).metadata.uid;
      await client.delete(MCS_SERVICE_IMPORTS, KEY);
    },
    undo: async () => {},
    async look() {
      const uid = (await (await lab.client(IMPORTER)).find(MCS_SERVICE_IMPORTS, KEY))?.metadata.uid;
      return uid === undefined || uid === deleted ? "" : "made again";
    },
    words: /made again/,
  },
  {
    what: "a user edits the port of a derived Service",
    async inject() {
      const ports = [{ name: "http", port: 8888 }];
      const at = objectKey("work", derived());
      await (await lab.client(IMPORTER)).mergePatch(SERVICES, at, { spec: { ports } });
    },
    undo: async () => {},
    look: () => eventsOf(derived()),
    words: /ChangeReverted: .*ports/,
  },
  {
    what: "an export has weight 0",
    inject: () => annotateExport({ "networking.fleet.azure.com/weight": "0" }),
    undo: () => annotateExport({ "networking.fleet.azure.com/weight": null }),
    words: /SERVICES NOT SERVED\n +work\/hello: member-1: weight 0: nothing is exported/,
  },
  {
    what: "an export is meant for a member that the fleet does not have",
    inject: () => annotateExport({ "fairlead.dev/export-to": "member2" }),
    undo: () => annotateExport({ "fairlead.dev/export-to": null }),
    words: /work\/hello: member-1: .*member2/,
  },
  wrongExport(
    "a targetPort names no port of the pods",
    "named",
    [service(work("named"), {}, { ...OF_HELLO, ports: [{ name: "http", port: 80, targetPort: "htp" }] })],
    /work\/named: member-1: no endpoint has port .*its targetPort htp is not the name of a port of the pods/,
  ),
  wrongExport(
    "a targetPort is one on which no process listens",
    "numbered",
    [service(work("numbered"), {}, { ...OF_HELLO, ports: [{ name: "http", port: 80, targetPort: 9999 }] })],
    /work\/numbered: member-1: its endpoints refuse connections from member-2/,
  ),
  wrongExport(
    "a headless Service is exported by the kind without headless Services",
    "headless",
    [service(work("headless"), { http: 8080 }, { ...OF_HELLO, clusterIP: "None" })],
    /INVALID EXPORTS\n +member-1: .*headless.*multicluster\.x-k8s\.io/,
  ),
  killed("member-1/member", /member-1: .*endpoints of the cluster answer member-2.*"fairlead member"/),
  killed("hub/hub", /"fairlead hub" is not running/),
  killed("hub/apiserver", /the hub at .* does not answer/),
  {
    what: "the link of a member is cut",
    inject: () => lab.lab("kill", [`link/${EXPORTER}`]),
    undo: () => lab.lab("restore", [`link/${EXPORTER}`]),
    words: /member-1: .*no endpoint of the cluster answers member-2/,
  },
  oneWay(EXPORTER, IMPORTER),
  oneWay(IMPORTER, EXPORTER),
];

describeOnKernel("an operator who looks at a fleet in which one thing is wrong", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "eseen" });
    for (const cluster of [EXPORTER, IMPORTER]) await makeNamespace(await lab.client(cluster), "work");
    await lab.apply(EXPORTER, echoDeployment(HELLO, 1), service(HELLO), fleetExport(HELLO));
  });
  afterAll(async () => {
    process.stdout.write(`\nSeconds until the cause is named\n${figures.join("\n")}\n`);
    await lab?.[Symbol.asyncDispose]();
  });

  describe.each(FAULTS)("$what", ({ what, inject, undo, words, look = status }) => {
    it("sees the cause by its name, and none before and afterwards", async () => {
      await until("a fleet in order", status, isInOrder, { timeoutMs: 60_000 });
      const beganMs = systemClock.monotonic();
      try {
        await inject();
        const injectedMs = systemClock.monotonic();
        const text = await until("the cause", look, (it) => words.test(it), { timeoutMs: 60_000 });
        const seconds = (systemClock.monotonic() - injectedMs) / 1000;
        const injecting = (injectedMs - beganMs) / 1000;
        const said = (words.exec(text)?.[0] ?? "").replaceAll(/\s+/g, " ");
        figures.push(`${seconds.toFixed(1)} (+${injecting.toFixed(1)}) | ${what} | ${said}`);
      } finally {
        await undo();
      }
      expect(await until("a fleet in order", status, isInOrder, { timeoutMs: 60_000 })).not.toMatch(words);
    });
  });
});
