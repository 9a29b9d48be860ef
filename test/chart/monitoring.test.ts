import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { createDnsMeters } from "@fairlead/dns/meters.ts";
import { createNodeMeters } from "@fairlead/fleet/dataplane/node/node-meters.ts";
import { createPathMeters } from "@fairlead/fleet/dataplane/node/path-meters.ts";
import {
  at,
  chartFolder,
  containersOf,
  CHARTS as MANAGERS,
  HELMS,
  podsOf,
  render,
  runHelm,
} from "../support/helm.ts";

/** What dashboards and alerts ask Prometheus for. */

const CHARTS = [...MANAGERS, "fairlead-node"] as const;
type Chart = (typeof CHARTS)[number];

const PAGE = join(import.meta.dirname, "../../docs/reference/metrics.md");
/** Has the metrics of nodes. */
const NODE_PAGE = join(import.meta.dirname, "../../docs/guide/tunnels.md");

/** Names of the metrics that programs have: of hub and member as their page says, which a test holds to them. */
async function metricsOfPrograms(): Promise<ReadonlySet<string>> {
  const page = [PAGE, NODE_PAGE].map((it) => readFileSync(it, "utf8")).join("\n");
  const metrics = createMetrics();
  using _meters = createDnsMeters(metrics);
  const dns = [...(await metrics.render()).matchAll(/^# TYPE (\S+)/gm)];
  return new Set([...page.matchAll(/^\| `([a-z_]+)` \|/gm), ...dns].map((it) => it[1] ?? ""));
}

function ofNodes(): readonly string[] {
  const page = readFileSync(NODE_PAGE, "utf8");
  return [...page.matchAll(/^\| `(fairlead_(?:node|tunnel)_[a-z_]+)`/gm)].map((it) => it[1] ?? "");
}

/** Names in an expression that are followed by labels, by a range, or by nothing that makes them a function or a label. */
function metricsIn(expression: string): readonly string[] {
  const bare = expression
    .replaceAll(/"[^"]*"/g, '""')
    .replaceAll(/\{[^}]*\}/g, "")
    .replaceAll(/\bby \([^)]*\)/g, "");
  return [...bare.matchAll(/\b[a-z_]+_[a-z_]+\b(?!\s*\()/g)]
    .map((it) => it[0].replace(/_bucket$/, ""))
    .filter((it) => !it.startsWith("__"));
}

/** Every metric in an expression with the content of its braces: "" without braces. */
function selectorsIn(expression: string): readonly { readonly metric: string; readonly labels: string }[] {
  const found = [...expression.matchAll(/\b([a-z_]+)\{((?:[^"}]|"[^"]*")*)\}/g)];
  const bare = metricsIn(expression.replaceAll(/\b[a-z_]+\{(?:[^"}]|"[^"]*")*\}/g, ""));
  return [
    ...found.map((it) => ({ metric: it[1] ?? "", labels: it[2] ?? "" })),
    ...bare.map((metric) => ({ metric, labels: "" })),
  ];
}

/** Whether Prometheus would take a series with these labels; regular expressions match whole values. */
function matches(selector: string, series: Readonly<Record<string, string>>): boolean {
  return ["namespace", "pod"].every((label) => {
    const [, operator, value = ""] = new RegExp(`\\b${label}(=~?)"([^"]*)"`).exec(selector) ?? [];
    if (operator === undefined) return false;
    const given = series[label] ?? "";
    return operator === "=" ? given === value : new RegExp(`^(?:${value})$`).test(given);
  });
}

it("has all metrics of node agents on their page", async () => {
  const metrics = createMetrics();
  createPathMeters(metrics);
  using _meters = createNodeMeters(metrics, () => ({ node: undefined, host: undefined }));
  const names = [...(await metrics.render()).matchAll(/^# TYPE (\S+)/gm)].map((it) => it[1]);
  expect(new Set(ofNodes())).toEqual(new Set(names));
});

const seenAlerts = new Set<string>();
const seenCharts = new Set<string>();

const [helm] = HELMS;

describe.skipIf(helm === undefined).for(CHARTS)("the chart %s", (chart: Chart) => {
  const rendered = () =>
    render(helm?.program ?? "", chart, [
      "podMonitor.enabled=true",
      ...(chart === "fairlead-node" ? ["metrics.expose=true"] : []),
      "prometheusRule.enabled=true",
      "grafanaDashboard.enabled=true",
    ]);
  interface Rule {
    readonly alert: string;
    readonly expr: string;
    readonly annotations: { readonly summary: string; readonly runbook_url?: string };
  }
  const alerts = async (): Promise<readonly Rule[]> => {
    const rule = (await rendered()).find((it) => it.kind === "PrometheusRule");
    return at(rule, "spec", "groups", 0, "rules") as Rule[];
  };
  const expressions = async (): Promise<readonly string[]> => {
    const map = (await rendered()).find((it) => it.kind === "ConfigMap");
    const dashboard = JSON.parse(String(at(map, "data", `${chart}.json`))) as {
      templating: { list: { query: string }[] };
      panels: { targets: { expr: string }[] }[];
    };
    return [
      ...dashboard.panels.flatMap((panel) => panel.targets.map((it) => it.expr)),
      ...dashboard.templating.list.map((it) => it.query).filter((it) => it.includes("max_concurrent")),
    ];
  };

  it("uses only existing metrics in dashboard and alerts", async () => {
    const known = await metricsOfPrograms();
    const asked = [...(await expressions()), ...(await alerts()).map((it) => it.expr)];
    const names = asked.flatMap(metricsIn);
    expect(new Set(names).size).toBeGreaterThan(8);
    expect(names.filter((it) => !known.has(it))).toEqual([]);
  });

  it("selects series of the dashboard by cluster and component, regardless of the name of the release", async () => {
    for (const it of await expressions()) {
      expect(it).not.toContain("fairlead-");
      for (const { metric, labels } of selectorsIn(it)) {
        const isFirst = it.startsWith("label_values(") && it.endsWith(", cluster)");
        expect({ it, metric, labels }).toEqual({
          it,
          metric,
          labels: expect.stringContaining(
            isFirst ? "app_kubernetes_io_component=" : 'cluster=~"$cluster"',
          ) as string,
        });
      }
    }
  });

  it("shows the fleet, and the resource usage of its programs", async () => {
    const asked = new Set((await expressions()).flatMap(metricsIn));
    const page = readFileSync(PAGE, "utf8");
    const ofFleet = [...page.matchAll(/^\| `(fairlead_fleet_[a-z_]+|fairlead_hub_cred[a-z_]+)`/gm)].map(
      (it) => it[1] ?? "",
    );
    const wanted =
      chart === "fairlead-node"
        ? ofNodes()
        : ofFleet.filter((it) => it.startsWith("fairlead_fleet") === (chart === "fairlead-hub"));
    for (const it of [...wanted, "process_cpu_seconds_total", "process_resident_memory_bytes"])
      expect(asked).toContain(it);
  });

  it("has a summary and a description in every alert, and keeps Prometheus' placeholders", async () => {
    for (const { alert, expr, annotations } of await alerts()) {
      expect(alert).toMatch(/^Fairlead[A-Z]/);
      // What is not there has no labels.
      if (expr.startsWith("absent(")) expect(annotations.summary).not.toMatch(/\$/);
      else expect(annotations.summary).toMatch(/\{\{ \$labels\.\w+ \}\}/);
    }
  });

  it("selects in every expression the release's own series, regardless of its name", async () => {
    const release = String(
      at(
        (await rendered()).find((it) => it.kind === "PodMonitor"),
        "metadata",
        "name",
      ),
    );
    for (const { alert, expr } of await alerts()) {
      const selectors = selectorsIn(expr);
      expect(selectors.length).toBeGreaterThan(0);
      for (const { metric, labels } of selectors) {
        const own = (pod: string, namespace = "fleet-system"): boolean => matches(labels, { pod, namespace });
        const dns = metric.startsWith("fairlead_dns") || alert === "FairleadDnsAbsent" ? "dns-" : "";
        expect({ alert, metric, own: own(`${release}-${dns}7d9f8b6c5-x2x4z`) }).toEqual({
          alert,
          metric,
          own: true,
        });
        for (const other of [
          "cert-manager-7d9f8b6c5-x2x4z",
          `my-${release}-7d9f8b6c5-x2x4z`,
          `${release}-a-b-c-d`,
        ])
          expect({ alert, metric, other: own(other) }).toEqual({ alert, metric, other: false });
        expect({ alert, metric, elsewhere: own(`${release}-7d9f8b6c5-x2x4z`, "argocd") }).toEqual({
          alert,
          metric,
          elsewhere: false,
        });
      }
    }
  });

  it("links every alert to its runbook, and has no runbook without an alert", async () => {
    const page = readFileSync(join(import.meta.dirname, "../../docs/reference/alerts.md"), "utf8");
    const headings = [...page.matchAll(/^## (\w+)$/gm)].map((it) => it[1] ?? "");
    const all = await alerts();
    for (const { alert, annotations } of all) {
      expect(headings).toContain(alert);
      expect(annotations.runbook_url).toMatch(new RegExp(`^https://.*/alerts\\.md#${alert.toLowerCase()}$`));
    }
    for (const it of all) seenAlerts.add(it.alert);
    if (seenCharts.add(chart).size === CHARTS.length)
      expect([...seenAlerts].toSorted()).toEqual(headings.toSorted());
  });

  it("has an alert for a release without pods, with the name of the release", async () => {
    const named = await render(helm?.program ?? "", chart, [
      "prometheusRule.enabled=true",
      "fullnameOverride=mine",
    ]);
    const rules = at(
      named.find((it) => it.kind === "PrometheusRule"),
      "spec",
      "groups",
      0,
      "rules",
    ) as Rule[];
    const absent = rules.find((it) => it.alert === "FairleadAbsent")?.expr ?? "";
    expect(absent).toMatch(/^absent\(up\{/);
    const [selector] = selectorsIn(absent);
    expect(matches(selector?.labels ?? "", { pod: "mine-7d9f8b6c5-x2x4z", namespace: "fleet-system" })).toBe(
      true,
    );
  });

  it("finds the pods whose metrics it reads", async () => {
    const manifests = await rendered();
    const monitor = manifests.find((it) => it.kind === "PodMonitor");
    const wanted = at(monitor, "spec", "selector", "matchExpressions", 0, "values");
    const components = manifests
      .filter((it) => it.kind === "Deployment" || it.kind === "DaemonSet")
      .map((it) => at(it, "spec", "template", "metadata", "labels", "app.kubernetes.io/component"));
    expect(new Set(components)).toEqual(new Set(wanted as string[]));
  });
});

/** Values with which the chart renders all of its programs. */
const ALL_PROGRAMS = {
  "fairlead-hub": [],
  "fairlead-member": ["nodes.install=true"],
  "fairlead-node": [],
  "fairlead-relay": [
    "relays[0].name=one",
    "relays[0].addresses[0]=203.0.113.9",
    "relays[0].nodeSelector.relay=one",
  ],
} as const;

describe.skipIf(helm === undefined)("pods in the network of their node", () => {
  const onNodes = async (chart: keyof typeof ALL_PROGRAMS, values: readonly string[] = []) => {
    const manifests = await render(helm?.program ?? "", chart, [...ALL_PROGRAMS[chart], ...values]);
    const pods = podsOf(manifests).filter((it) => it.spec["hostNetwork"] === true);
    return containersOf(manifests)
      .filter(({ of }) => pods.some((pod) => of.startsWith(`${pod.of}/`)))
      .map(({ args, manifest }) => ({
        metrics: args.filter((it) => it.startsWith("--metrics=")),
        probes: ["startupProbe", "livenessProbe", "readinessProbe"].map((it) => {
          return (at(manifest, it, "httpGet") as { host?: string }).host;
        }),
      }));
  };
  const probes = ["127.0.0.1", "127.0.0.1", "127.0.0.1"];

  it.each([
    ["fairlead-hub", undefined],
    ["fairlead-member", undefined],
    ["fairlead-node", 8085],
    ["fairlead-relay", 8084],
  ] as const)("serve metrics to the node alone, unless values of %s expose them", async (chart, port) => {
    const expected = (host: string) =>
      port === undefined ? [] : [{ metrics: [`--metrics=${host}:${port}`], probes }];
    expect(await onNodes(chart)).toEqual(expected("127.0.0.1"));
    if (port !== undefined) expect(await onNodes(chart, ["metrics.expose=true"])).toEqual(expected(""));
  });

  it("are not scraped where Prometheus cannot reach them: the chart refuses, and names the value", async () => {
    const args = ["template", "fleet", chartFolder("fairlead-node"), "--set", "podMonitor.enabled=true"];
    const { exitCode, stderr } = await runHelm(helm?.program ?? "", args, { allowFailure: true });
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain("podMonitor.enabled needs metrics.expose=true");
  });
});
