import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createMetrics } from "#base/metrics.ts";
import { createDnsMeters } from "#dns/meters.ts";
import { at, type Chart, CHARTS, HELMS, render } from "./helm.ts";

/** What dashboards and alerts ask Prometheus for. */

const PAGE = join(import.meta.dirname, "../../docs/reference/metrics.md");

/** Names of the metrics that programs have: of hub and member as their page says, which a test holds to them. */
async function metricsOfPrograms(): Promise<ReadonlySet<string>> {
  const page = readFileSync(PAGE, "utf8");
  const metrics = createMetrics();
  using _meters = createDnsMeters(metrics);
  const dns = [...(await metrics.render()).matchAll(/^# TYPE (\S+)/gm)];
  return new Set([...page.matchAll(/^\| `([a-z_]+)` \|/gm), ...dns].map((it) => it[1] ?? ""));
}

/** Names in an expression that stand before labels, a range, or nothing that makes them a function or a label. */
function metricsIn(expression: string): readonly string[] {
  const bare = expression
    .replaceAll(/"[^"]*"/g, '""')
    .replaceAll(/\{[^}]*\}/g, "")
    .replaceAll(/\bby \([^)]*\)/g, "");
  return [...bare.matchAll(/\b[a-z_]+_[a-z_]+\b(?!\s*\()/g)]
    .map((it) => it[0].replace(/_bucket$/, ""))
    .filter((it) => !it.startsWith("__"));
}

const [helm] = HELMS;

describe.skipIf(helm === undefined).for(CHARTS)("the chart %s", (chart: Chart) => {
  const rendered = () =>
    render(helm?.program ?? "", chart, [
      "podMonitor.enabled=true",
      "prometheusRule.enabled=true",
      "grafanaDashboard.enabled=true",
    ]);
  interface Rule {
    readonly alert: string;
    readonly expr: string;
    readonly annotations: { readonly summary: string };
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

  it("asks in dashboard and alerts for metrics that the programs have, and no other", async () => {
    const known = await metricsOfPrograms();
    const asked = [...(await expressions()), ...(await alerts()).map((it) => it.expr)];
    const names = asked.flatMap(metricsIn);
    expect(new Set(names).size).toBeGreaterThan(8);
    expect(names.filter((it) => !known.has(it))).toEqual([]);
  });

  it("says in every alert what is wrong, with Prometheus' own placeholders left as they are", async () => {
    for (const { alert, annotations } of await alerts()) {
      expect(alert).toMatch(/^Fairlead[A-Z]/);
      expect(annotations.summary).toMatch(/\{\{ \$labels\.\w+ \}\}/);
    }
  });

  it("finds the pods whose metrics it reads", async () => {
    const manifests = await rendered();
    const monitor = manifests.find((it) => it.kind === "PodMonitor");
    const wanted = at(monitor, "spec", "selector", "matchExpressions", 0, "values");
    const components = manifests
      .filter((it) => it.kind === "Deployment")
      .map((it) => at(it, "spec", "template", "metadata", "labels", "app.kubernetes.io/component"));
    expect(new Set(components)).toEqual(new Set(wanted as string[]));
  });
});
