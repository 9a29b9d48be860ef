import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { VERSION } from "@fairlead/base/version.ts";
import { chartFiles } from "../../scripts/chart-files.ts";
import { at, chartFolder, containersOf, HELMS, misuse, podsOf, render, runHelm } from "../support/helm.ts";

const CHART = "fairlead-node";
const read = (file: string): string => readFileSync(join(chartFolder(CHART), file), "utf8");
const ALL_ON = [
  "imagePullSecrets[0].name=pull",
  "serviceAccount.annotations.a=b",
  "podLabels.c=d",
  "podAnnotations.e=f",
  "criSocket=/run/k3s/containerd/containerd.sock",
  "extraArgs[0]=--log-level=debug",
];

describe("the chart of node agents", () => {
  it("is of the program's version, and has the templates of the other charts", () => {
    const { version, appVersion } = parse(read("Chart.yaml")) as Record<string, string>;
    expect({ version, appVersion }).toEqual({ version: VERSION, appVersion: VERSION });
    for (const file of ["_common.tpl", "rbac.yaml"])
      expect(read(`templates/${file}`)).toBe(
        readFileSync(join(chartFolder("fairlead-hub"), "templates", file), "utf8"),
      );
  });

  it("describes every value in its schema, and has a default for each that is not Fleetboard's", () => {
    const { properties } = JSON.parse(read("values.schema.json")) as {
      properties: Record<string, { description?: string }>;
    };
    const described = Object.entries(properties)
      .filter(([name, { description }]) => name !== "global" && !description?.includes("does nothing here"))
      .map(([name]) => name);
    expect(described.toSorted()).toEqual(Object.keys(parse(read("values.yaml")) as object).toSorted());
  });

  it("has the rules that the program declares", () => {
    const path = `charts/${CHART}/files/rules.yaml`;
    expect(read("files/rules.yaml")).toBe(chartFiles().get(path));
  });
});

describe.skipIf(HELMS.length === 0).for(HELMS)(
  "the chart of node agents, Helm $version",
  ({ program, version }) => {
    it("finds nothing wrong, with the defaults and with everything on", async () => {
      for (const values of [[], ALL_ON]) {
        const set = values.flatMap((it) => ["--set", it]);
        const { stdout } = await runHelm(program, ["lint", "--strict", chartFolder(CHART), ...set]);
        expect(stdout).toContain("0 chart(s) failed");
      }
    });

    it("passes only flags that the program has, and mounts the folders that they name", async () => {
      for (const values of [[], ALL_ON, ["wireguardGo.enabled=false"]]) {
        const [container] = containersOf(await render(program, CHART, values));
        const args = container?.args ?? [];
        expect(await misuse(args)).toBe("");
        const mounts = (at(container?.manifest, "volumeMounts") as { mountPath: string }[]).map(
          (it) => it.mountPath,
        );
        for (const it of args) {
          const path = /=(\/.+)$/.exec(it)?.[1];
          if (path !== undefined)
            expect({ it, isMounted: mounts.some((mount) => path.startsWith(mount)) }).toEqual({
              it,
              isMounted: true,
            });
        }
      }
    });

    it("keeps on the node what has to stay when the container ends, and shows it what pods get later", async () => {
      const [container] = containersOf(await render(program, CHART));
      const mounts = at(container?.manifest, "volumeMounts") as { name: string; mountPropagation?: string }[];
      expect(mounts.map((it) => [it.name, it.mountPropagation])).toEqual([
        ["state", "Bidirectional"],
        ["run", "HostToContainer"],
        ["netns", "HostToContainer"],
        ["cgroup", undefined],
      ]);
      expect(container?.security).toEqual({ privileged: true, readOnlyRootFilesystem: true, runAsUser: 0 });
    });

    it("sees the node's processes only where those of wireguard-go have to outlive the container", async () => {
      const pods = async (values: readonly string[]) => podsOf(await render(program, CHART, values));
      const [first] = await pods([]);
      expect(first?.spec).toMatchObject({ hostNetwork: true, hostPID: true });
      const [second] = await pods(["wireguardGo.enabled=false"]);
      expect(second?.spec).not.toHaveProperty("hostPID");
      expect(JSON.stringify(second)).not.toContain("cgroup");
    });

    // Helm 3 asks a cluster for its version, also in a dry run.
    it.runIf(version === 4)(
      "takes the values of Fleetboard's chart, and names those that have no effect",
      async () => {
        const values = [
          "hub.hubURL=https://hub:6443",
          "cluster.clusterID=east",
          "tunnel.cidr=20.112.0.0/12",
          "service.port=31820",
        ];
        const set = values.flatMap((it) => ["--set", it]);
        const { stdout } = await runHelm(program, [
          "install",
          "x",
          chartFolder(CHART),
          "--dry-run=client",
          ...set,
        ]);
        expect(stdout).toContain("without an effect here: cluster, hub, service, tunnel.");
      },
    );

    it.each([
      ["stateDir=state", "stateDir"],
      ["criSocket=containerd.sock", "criSocket"],
      ["wireguardGo.cgroup=../x", "cgroup"],
      ["fleetSystemNamespace=other", "fleetSystemNamespace"],
      ["nonsense=1", "nonsense"],
    ])("rejects %s", async (value, message) => {
      const { exitCode, stderr } = await runHelm(
        program,
        ["template", "fleet", chartFolder(CHART), "--set", value],
        {
          allowFailure: true,
        },
      );
      expect(exitCode).not.toBe(0);
      expect(stderr).toContain(message);
    });
  },
);
