import { describe, expect, it } from "vitest";
import { Clusters } from "./clusters.ts";
import { Fleet } from "./fleet.ts";

const SETTINGS = {
  kubeconfig: "none",
  hub: "hub",
  members: ["east", "west"],
  image: "fairlead",
  kubectl: "kubectl",
  helm: "helm",
  fairlead: "fairlead",
  hubDown: undefined,
  hubUp: undefined,
  helmTimeoutSeconds: 700,
  keep: false,
};

/** Notes commands in place of running them. */
class NotedClusters extends Clusters {
  readonly commands: string[] = [];
  readonly #fails: (command: string) => boolean;
  readonly #objects: ReadonlyMap<string, object>;

  constructor(fails: (command: string) => boolean, objects: ReadonlyMap<string, object> = new Map()) {
    super(SETTINGS, new AbortController().signal);
    this.#fails = fails;
    this.#objects = objects;
  }

  protected override async run(program: string, args: readonly string[]): Promise<string> {
    const command = [program, ...args].join(" ");
    this.commands.push(command);
    if (this.#fails(command)) throw new Error("timed out");
    const found = [...this.#objects].find(([part]) => command.includes(part));
    return found === undefined ? "" : JSON.stringify(found[1]);
  }
}

const CRD = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "works.placement.kubernetes-fleet.io", uid: "crd" },
};

describe("the removal at the end of a run", () => {
  it("tries each step whatever becomes of the others, and names those that failed", async () => {
    const served = new Map<string, object>([
      [" get crd ", CRD],
      [" get memberclusters", {}],
    ]);
    const clusters = new NotedClusters((it) => / delete |leave|west --undo/.test(it), served);
    await expect(new Fleet(clusters).remove()).rejects.toThrow(
      /cannot remove what is placed: timed out\n.*exports and imports of east.*\n.*let east leave.*undo the DNS of west/s,
    );
    const uninstalls = clusters.commands.filter((it) => it.includes(" uninstall "));
    expect(uninstalls.map((it) => it.split(" ")[2])).toEqual([
      "fairlead-member",
      "fairlead-member",
      "fairlead-hub",
    ]);
    // Also the last one: what the installation left in each cluster.
    for (const cluster of ["hub", "east", "west"])
      expect(clusters.commands).toContainEqual(
        expect.stringMatching(`kubectl --context ${cluster} get crd,namespaces,csr`),
      );
  });

  it("takes off the finalizers of objects whose programs are gone, before their kind is deleted", async () => {
    const metadata = { name: "shop", namespace: "fleet-member-east", uid: "work", finalizers: ["x"] };
    const clusters = new NotedClusters(
      () => false,
      new Map<string, object>([
        ["hub get crd,namespaces,csr", { items: [CRD] }],
        [`hub get ${CRD.metadata.name} -A`, { items: [{ metadata }] }],
      ]),
    );
    await new Fleet(clusters).remove();
    const last = clusters.commands.slice(clusters.commands.findIndex((it) => it.includes("crd,namespaces")));
    const patched = last.findIndex((it) =>
      it.includes(`-n fleet-member-east patch ${CRD.metadata.name} shop`),
    );
    const deleted = last.findIndex((it) =>
      it.includes(`delete customresourcedefinition ${CRD.metadata.name}`),
    );
    expect(patched).toBeGreaterThan(0);
    expect(deleted).toBeGreaterThan(patched);
  });

  it("waits for Helm as long as the run says", async () => {
    const clusters = new NotedClusters(() => false);
    await clusters.chart("east", ["install"], "fairlead-member");
    expect(clusters.commands[0]).toMatch(/--wait .*--timeout 700s/);
  });
});
