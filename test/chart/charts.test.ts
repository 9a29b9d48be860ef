import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { Secret } from "@fairlead/kube/api/core/v1/types.ts";
import { readHubSecret } from "@fairlead/fleet/api/fairlead.dev/hub-secret.ts";
import { chartFiles } from "../../scripts/chart-files.ts";
import { VERSION } from "@fairlead/base/version.ts";
import {
  at,
  chartFolder,
  CHARTS,
  type Chart,
  containersOf,
  HELMS,
  misuse,
  podsOf,
  render,
  runHelm,
} from "../support/helm.ts";
import { sampleOf } from "../support/sample.ts";

/** The charts as real Helm renders them. */

const read = (chart: Chart, file: string): string => readFileSync(join(chartFolder(chart), file), "utf8");

/** With everything on that is off by default. */
const ALL_ON: Readonly<Record<Chart, readonly string[]>> = {
  "fairlead-hub": [
    "podMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "grafanaDashboard.enabled=true",
    "networkPolicy.enabled=true",
    "networkPolicy.egress[0].ports[0].port=6443",
    "priorityClassName=system-cluster-critical",
    "imagePullSecrets[0].name=pull",
    "serviceAccount.annotations.a=b",
    "podLabels.c=d",
    "podAnnotations.e=f",
    "nodeSelector.kubernetes\\.io/os=linux",
    "tolerations[0].operator=Exists",
    "image.tag=v9",
    "trafficManager.dns.enabled=true",
    "trafficManager.owner=fleet",
    "trafficManager.dns.service.loadBalancerSourceRanges[0]=192.0.2.0/24",
    "crdInstaller.enabled=false",
    "clusterAPI.enabled=true",
  ],
  "fairlead-member": [
    "upgrades.enabled=true",
    "podMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "grafanaDashboard.enabled=true",
    "networkPolicy.enabled=true",
    "dns.service.clusterIP=10.96.0.53",
    "dns.priorityClassName=system-cluster-critical",
    "dns.trafficZone=shop.example.com",
    "config.hubURL=https://hub.example:6443",
    "config.memberClusterName=east",
    "config.token=abc",
    "config.hubCA=UEVN",
    `image.digest=sha256:${"a".repeat(64)}`,
    "tlsClientInsecure=false",
  ],
};

describe.for(CHARTS)("the chart %s", (chart) => {
  it("is of the program's version", () => {
    const { version, appVersion } = parse(read(chart, "Chart.yaml")) as Record<string, string>;
    expect({ version, appVersion }).toEqual({ version: VERSION, appVersion: VERSION });
  });

  it("describes every value in its schema, and has a default for each that is not another chart's", () => {
    const properties = at(JSON.parse(read(chart, "values.schema.json")), "properties") as Record<
      string,
      { description?: string }
    >;
    const values = parse(read(chart, "values.yaml")) as Record<string, unknown>;
    const ours = Object.keys(properties).filter(
      (it) => it !== "global" && !/does nothing here|always checks/.test(properties[it]?.description ?? ""),
    );
    expect(Object.keys(values).toSorted()).toEqual(ours.toSorted());
  });

  it("has the rules and policies that the programs declare", () => {
    const made = [...chartFiles()].filter(([path]) => path.startsWith(`charts/${chart}/`));
    expect(made.length).toBeGreaterThan(0);
    for (const [path, text] of made)
      expect(readFileSync(join(chartFolder(chart), "../..", path), "utf8")).toBe(text);
  });
});

function preferredApart(spec: Record<string, unknown>): unknown[] {
  const path = ["affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"] as const;
  return at(spec, ...path) as unknown[];
}

describe("the two charts", () => {
  it.each(["_common.tpl", "crds.yaml", "rbac.yaml", "monitoring.yaml", "tests/kinds.yaml"])(
    "have the same %s",
    (file) => {
      const [hub, member] = CHARTS.map((chart) => read(chart, `templates/${file}`));
      expect(member).toBe(hub);
    },
  );
});

describe.skipIf(HELMS.length === 0).for(sampleOf(HELMS, [0]))("Helm $version", ({ program }) => {
  it.each([
    ["v1.36.0+fairlead", "auto", true],
    ["v1.36.0", "auto", false],
    ["v1.36.0", "true", true],
    ["v1.36.0+fairlead", "false", false],
  ])(
    "on an API server %s, with certificates.impersonate=%s, lets the hub act as members: %s",
    async (version, value, isLet) => {
      const args = ["template", "fleet", chartFolder("fairlead-hub"), "--kube-version", version];
      const { stdout } = await runHelm(program, [...args, "--set", `certificates.impersonate=${value}`]);
      expect(stdout.includes("fleet-fairlead-hub-certifies")).toBe(isLet);
      expect(stdout.includes("impersonate")).toBe(isLet);
    },
  );

  describe.for(CHARTS)("on %s", (chart) => {
    it("finds nothing wrong, with the defaults and with everything on", async () => {
      for (const values of [[], ALL_ON[chart]]) {
        const set = values.flatMap((it) => ["--set", it]);
        const { stdout } = await runHelm(program, ["lint", "--strict", chartFolder(chart), ...set]);
        expect(stdout).toContain("0 chart(s) failed");
      }
    });

    it.each([
      ["replicaCount=-1", "replicaCount"],
      ["image.pullPolicy=Sometimes", "pullPolicy"],
      ["image.digest=sha256:abc", "digest"],
      ["logLevel=loud", "logLevel"],
      ["nonsense=1", "nonsense"],
      ["image.nonsense=1", "nonsense"],
      ["fleetSystemNamespace=other", "fleetSystemNamespace"],
      ["metrics.port=80", "port"],
      ["extraArgs[0]=word", "extraArgs"],
      ...(chart === "fairlead-hub"
        ? [
            ["forceDeleteWaitTime=later", "forceDeleteWaitTime"],
            ["forceDeleteWaitTime=", "forceDeleteWaitTime"],
            ["memberLeaseSeconds=1", "memberLeaseSeconds"],
            ["trafficManager.provider=azure", "provider"],
            ["trafficManager.provider=rfc2136", "trafficManager.rfc2136.server"],
          ]
        : [
            ["config.hubURL=http://hub", "hubURL"],
            ["config.memberClusterName=East", "memberClusterName"],
            ["tlsClientInsecure=true", "tlsClientInsecure"],
            ["dns.listen[0]=10.0.0.1", "listen"],
            ["dns.zone=Cluster Set", "zone"],
          ]),
    ])("refuses %s and names the field", async (value, field) => {
      const refused = await runHelm(program, ["template", "fleet", chartFolder(chart), "--set", value], {
        allowFailure: true,
      });
      expect(refused.exitCode).not.toBe(0);
      expect(refused.stderr).toContain(field);
    });

    it("renders only pods that the restricted Pod Security Standard accepts, with no more privileges than they need", async () => {
      const manifests = await render(program, chart, ALL_ON[chart]);
      for (const { of, spec } of podsOf(manifests)) {
        expect({ of, spec }).toMatchObject({
          of,
          spec: {
            enableServiceLinks: false,
            securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
          },
        });
        expect({ of, user: at(spec, "securityContext", "runAsUser") }).toEqual({ of, user: 65_532 });
        for (const field of ["hostNetwork", "hostPID", "hostIPC", "volumes"])
          expect({ of, ...spec }).not.toHaveProperty(field);
      }
      for (const { of, security, manifest } of containersOf(manifests)) {
        expect({ of, ...security }).toEqual({
          of,
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          runAsNonRoot: true,
          capabilities: { drop: ["ALL"] },
          seccompProfile: { type: "RuntimeDefault" },
        });
        expect({ of, cpu: typeof at(manifest, "resources", "requests", "cpu") }).toEqual({
          of,
          cpu: "string",
        });
        const ports = (manifest["ports"] as { containerPort: number }[] | undefined) ?? [];
        expect(ports.filter((it) => it.containerPort < 1024)).toEqual([]);
      }
    });

    it("passes only flags that the programs accept", async () => {
      const containers = containersOf(await render(program, chart, ALL_ON[chart]));
      expect(containers.length).toBeGreaterThan(2);
      for (const { of, args } of containers)
        expect({ of, args, misuse: await misuse(args) }).toEqual({ of, args, misuse: "" });
    });

    it("probes every long-running program", async () => {
      const deployments = (await render(program, chart)).filter((it) => it.kind === "Deployment");
      for (const container of containersOf(deployments)) {
        const ports = container.manifest["ports"] as { name: string }[];
        for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"])
          expect(ports.map((it) => it.name)).toContain(at(container.manifest, probe, "httpGet", "port"));
      }
    });

    it("spreads replicas, and keeps one of them available, by selectors that match the pods", async () => {
      const manifests = await render(program, chart, ALL_ON[chart]);
      const labels = manifests
        .filter((it) => it.kind === "Deployment")
        .map((it) => at(it, "spec", "template", "metadata", "labels") as Record<string, string>);
      const selectors = [
        ...manifests
          .filter((it) => it.kind === "PodDisruptionBudget")
          .map((it) => at(it, "spec", "selector", "matchLabels")),
        ...manifests
          .filter((it) => it.kind === "NetworkPolicy")
          .map((it) => at(it, "spec", "podSelector", "matchLabels")),
        ...manifests.filter((it) => it.kind === "Service").map((it) => at(it, "spec", "selector")),
        ...podsOf(manifests.filter((it) => it.kind === "Deployment")).flatMap(({ spec }) =>
          preferredApart(spec).map((it) => at(it, "podAffinityTerm", "labelSelector", "matchLabels")),
        ),
      ] as Record<string, string>[];
      expect(selectors.length).toBeGreaterThanOrEqual(labels.length * 4);
      for (const selector of selectors) {
        const matches = labels.filter((it) =>
          Object.entries(selector).every(([key, value]) => it[key] === value),
        );
        expect({ selector, matches: matches.length }).toEqual({ selector, matches: 1 });
      }
    });

    it("spreads replicas over nodes, then zones, without spread constraints, in addition to the affinity of the values", async () => {
      const terms = (spec: Record<string, unknown>): unknown[] =>
        preferredApart(spec).map((it) => [at(it, "weight"), at(it, "podAffinityTerm", "topologyKey")]);
      const own = [
        [100, "kubernetes.io/hostname"],
        [50, "topology.kubernetes.io/zone"],
      ];
      const deployments = async (values: readonly string[]) =>
        podsOf((await render(program, chart, values)).filter((it) => it.kind === "Deployment"));
      for (const { spec } of await deployments([])) {
        expect(terms(spec)).toEqual(own);
        expect(spec).not.toHaveProperty("topologySpreadConstraints");
      }
      const said = "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
      const [main] = await deployments([
        `${said}.weight=7`,
        `${said}.podAffinityTerm.topologyKey=rack`,
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=a",
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
      ]);
      expect(terms(main?.spec ?? {})).toEqual([...own, [7, "rack"]]);
      expect(at(main?.spec, "affinity", "nodeAffinity")).toBeDefined();
    });

    it("allows only the Job to write CRDs, by name, and to read all Secrets only the role of placements, which can be turned off", async () => {
      const places = (it: { kind: string; metadata: { name: string } }): boolean =>
        it.metadata.name.endsWith("-placement") || it.metadata.name.includes("-applies-");
      const hasPlacements = ["fairlead-hub", "fairlead-member"].includes(chart);
      const without = hasPlacements ? ["placements.enabled=false"] : [];
      expect((await render(program, chart, without)).filter(places)).toEqual([]);
      const manifests = await render(program, chart, ALL_ON[chart]);
      for (const role of manifests.filter((it) => it.kind === "ClusterRole" && !places(it))) {
        for (const rule of role["rules"] as Record<
          "apiGroups" | "resources" | "resourceNames" | "verbs",
          string[]
        >[]) {
          const isJob = role.metadata.labels?.["app.kubernetes.io/component"] === "crds";
          const writes = rule.verbs.some((it) => !["get", "list", "watch"].includes(it));
          if (rule.resources.includes("customresourcedefinitions")) {
            expect(isJob || !writes).toBe(true);
            expect(rule.resourceNames.length).toBeGreaterThan(0);
          }
          expect(rule.resources).not.toContain("secrets");
          expect(rule.apiGroups).not.toContain("*");
          expect(rule.verbs).not.toContain("*");
        }
      }
    });
  });

  it("installs admission policies for mailboxes, unless they are disabled", async () => {
    const kinds = async (values: readonly string[]): Promise<readonly string[]> =>
      (await render(program, "fairlead-hub", values))
        .map((it) => it.kind)
        .filter((it) => it.startsWith("ValidatingAdmissionPolicy"));
    const all = await kinds([]);
    expect(all.filter((it) => it === "ValidatingAdmissionPolicy")).toHaveLength(all.length / 2);
    expect(all.length).toBeGreaterThan(2);
    expect(await kinds(["policies.install=false"])).toEqual([]);
  });

  it("keeps workloads out of the hub and serves its webhook, unless told otherwise", async () => {
    const names = async (values: readonly string[]): Promise<readonly string[]> =>
      (await render(program, "fairlead-hub", values)).map((it) => `${it.kind} ${it.metadata.name}`);
    const workloads = "ValidatingAdmissionPolicy fairlead-workloads";
    const webhook = "ValidatingWebhookConfiguration fairlead-hub";
    expect(await names([])).toEqual(expect.arrayContaining([workloads, webhook]));
    const less = await names(["guardRails.workloads=allow", "webhook.enabled=false"]);
    expect(less).not.toContain(workloads);
    expect(less.filter((it) => it.includes("ebhook"))).toEqual([]);
    expect(await names(["guardRails.lockMemberLabels=true"])).toContain(
      "ValidatingAdmissionPolicy fairlead-member-labels",
    );
  });

  it("renders a member with its hub, whose certificate it verifies", async () => {
    const manifests = await render(program, "fairlead-member", ALL_ON["fairlead-member"]);
    const secret = manifests.find((it) => it.kind === "Secret");
    const decode = (key: string): string =>
      Buffer.from(String(at(secret, "data", key)), "base64").toString("utf8");
    expect(["server", "cluster", "token", "ca.crt"].map(decode)).toEqual([
      "https://hub.example:6443",
      "east",
      "abc",
      "PEM",
    ]);
  });

  it("takes Fleetboard's values for the hub, the member's name and the zone, and those of this chart first", async () => {
    const theirs = [
      "hub.hubURL=https://fleetboard.example:6443",
      "cluster.clusterID=west",
      "cluster.zone=fleet.example",
      "cluster.ispublic=true",
      "service.port=31820",
      "tunnel.cidr=20.112.0.0/12",
    ];
    const rendered = async (values: readonly string[]) => {
      const manifests = await render(program, "fairlead-member", values);
      const secret = manifests.find((it) => it.kind === "Secret");
      const decode = (key: string): string =>
        Buffer.from(String(at(secret, "data", key)), "base64").toString("utf8");
      const args = containersOf(manifests).flatMap((it) => it.args);
      return [decode("server"), decode("cluster"), args.find((it) => it.startsWith("--fleetboard-zone"))];
    };
    expect(await rendered([...theirs, "config.token=abc"])).toEqual([
      "https://fleetboard.example:6443",
      "west",
      "--fleetboard-zone=fleet.example",
    ]);
    expect(
      await rendered([
        ...theirs,
        "config.token=abc",
        "config.hubURL=https://hub.example",
        "config.memberClusterName=east",
      ]),
    ).toEqual(["https://hub.example", "east", "--fleetboard-zone=fleet.example"]);
  });

  it.each([
    ["1h2m3s", 3723],
    ["2m0s", 120],
    ["90s", 90],
    ["15m", 900],
  ])("takes %s for a force-delete wait of %i seconds", async (text, seconds) => {
    const manifests = await render(program, "fairlead-hub", [`forceDeleteWaitTime=${text}`]);
    const args = containersOf(manifests).flatMap((it) => it.args);
    expect(args).toContain(`--force-delete-seconds=${seconds}`);
  });

  it("opens ConfigMaps as envelopes only where that is asked for", async () => {
    const argsWith = async (...values: string[]): Promise<string[]> =>
      containersOf(await render(program, "fairlead-hub", values)).flatMap((it) => it.args);
    expect(await argsWith()).not.toContain("--configmap-envelopes");
    expect(await argsWith("placements.configMapEnvelopes=true")).toContain("--configmap-envelopes");
  });

  it("names the missing value for a member without a token", async () => {
    const set = ["--set", "config.hubURL=https://hub.example", "--set", "config.memberClusterName=east"];
    const refused = await runHelm(program, ["template", "x", chartFolder("fairlead-member"), ...set], {
      allowFailure: true,
    });
    expect(refused.stderr).toContain("config.token");
  });
});

describe.skipIf(HELMS.length === 0).for(sampleOf(HELMS, [0]))(
  "what is set of the traffic manager, Helm $version",
  ({ program }) => {
    const argsOf = async (chart: Chart, values: readonly string[], container: string) =>
      containersOf(await render(program, chart, values)).find((it) => it.of.endsWith(`/${container}`))?.args;

    it("becomes flags of the hub, with the key in a file", async () => {
      const values = [
        "trafficManager.provider=rfc2136",
        "trafficManager.zone=shop.example.com",
        "trafficManager.ttl=30",
        "trafficManager.rfc2136.server=ns1.example.com:53",
        "trafficManager.rfc2136.keySecret=tsig",
      ];
      const args = (await argsOf("fairlead-hub", values, "hub")) ?? [];
      expect(args.filter((it) => /traffic|rfc2136/.test(it))).toEqual([
        "--traffic-provider=rfc2136",
        "--traffic-zone=shop.example.com",
        "--traffic-ttl=30",
        "--rfc2136-server=ns1.example.com:53",
        "--rfc2136-key-file=/etc/fairlead/rfc2136/key",
      ]);
      expect(await misuse(args)).toBe("");
      const pod = podsOf(await render(program, "fairlead-hub", values)).find((it) => it.component === "hub");
      expect(pod?.spec["volumes"]).toEqual([{ name: "rfc2136", secret: { secretName: "tsig" } }]);
    });

    it("renders nothing when it is off", async () => {
      const args = await argsOf("fairlead-hub", ["trafficManager.enabled=false"], "hub");
      expect(args?.filter((it) => it.includes("traffic"))).toEqual(["--traffic-provider=none"]);
    });

    it("installs DNS servers for the zone on the hub, behind a load balancer, and in members", async () => {
      const values = ["trafficManager.dns.enabled=true", "trafficManager.zone=shop.example.com"];
      const args = await argsOf("fairlead-hub", values, "dns");
      expect(args).toEqual(expect.arrayContaining(["--traffic-only", "--traffic-zone=shop.example.com"]));
      const manifests = await render(program, "fairlead-hub", values);
      const service = manifests.find((it) => it.kind === "Service");
      expect(at(service, "spec", "type")).toBe("LoadBalancer");
      const inMember = await argsOf("fairlead-member", ["dns.trafficZone=shop.example.com"], "dns");
      expect(inMember).toContain("--traffic-zone=shop.example.com");
    });
  },
);

describe.skipIf(HELMS.length === 0).for(sampleOf(HELMS, [0]))(
  "a member joined by Helm alone, Helm $version",
  ({ program }) => {
    it("renders the user and the join token for a certificate request", async () => {
      const manifests = await render(program, "fairlead-member", [
        "config.hubURL=https://hub.example:6443",
        "config.memberClusterName=east",
        "config.bootstrapToken=abc",
        "config.hubCA=UEVN",
      ]);
      const secret = manifests.find((it) => it.kind === "Secret") as unknown as Secret;
      expect(readHubSecret(secret)).toEqual({
        kind: "access",
        access: {
          server: "https://hub.example:6443",
          ca: "PEM",
          followCa: false,
          cluster: "east",
          proof: { kind: "bootstrap", user: "fleet:member:east", token: "abc" },
        },
      });
    });

    it("requires one of the two tokens", async () => {
      const set = ["config.hubURL=https://hub.example", "config.memberClusterName=east"];
      await expect(render(program, "fairlead-member", set)).rejects.toThrow(
        /config\.token or config\.bootstrapToken must be set/,
      );
    });
  },
);
