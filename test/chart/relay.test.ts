import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { VERSION } from "@fairlead/base/version.ts";
import { keyBytes } from "@fairlead/os/wireguard/keys.ts";
import {
  at,
  chartFolder,
  containersOf,
  HELMS,
  type Manifest,
  misuse,
  podsOf,
  render,
  runHelm,
} from "../support/helm.ts";

const CHART = "fairlead-relay";
const read = (file: string): string => readFileSync(join(chartFolder(CHART), file), "utf8");

const RELAYS = [
  "relays[0].name=one",
  "relays[0].addresses[0]=203.0.113.9",
  "relays[0].addresses[1]=2001:db8::9",
  "relays[0].nodeSelector.relay=one",
  "relays[1].name=two",
  "relays[1].addresses[0]=203.0.113.10",
  "relays[1].nodeSelector.relay=two",
  "relays[1].keySecret=own-key",
];

describe("the chart of relays", () => {
  it("is of the program's version, and has the templates of the other charts", () => {
    const { version, appVersion } = parse(read("Chart.yaml")) as Record<string, string>;
    expect({ version, appVersion }).toEqual({ version: VERSION, appVersion: VERSION });
    for (const file of ["_common.tpl", "rbac.yaml"])
      expect(read(`templates/${file}`)).toBe(
        readFileSync(join(chartFolder("fairlead-hub"), "templates", file), "utf8"),
      );
  });

  it("describes every value in its schema", () => {
    const { properties } = JSON.parse(read("values.schema.json")) as { properties: object };
    const described = Object.keys(properties).filter((it) => it !== "global");
    expect(described.toSorted()).toEqual(Object.keys(parse(read("values.yaml")) as object).toSorted());
  });
});

describe.skipIf(HELMS.length === 0).for(HELMS)("the chart of relays, Helm $version", ({ program }) => {
  const securityOf = (manifests: readonly Manifest[]) => ({
    pod: podsOf(manifests)[0]?.spec["securityContext"],
    container: containersOf(manifests)[0]?.security,
  });

  it("finds nothing wrong, with no relay and with two", async () => {
    for (const values of [[], RELAYS]) {
      const set = values.flatMap((it) => ["--set", it]);
      const { stdout } = await runHelm(program, ["lint", "--strict", chartFolder(CHART), ...set]);
      expect(stdout).toContain("0 chart(s) failed");
    }
  });

  it("runs each relay on its node, with flags that the program has", async () => {
    const manifests = await render(program, CHART, [...RELAYS, "pairLimit=100"]);
    const [one, two] = containersOf(manifests);
    expect(one?.args).toEqual(
      expect.arrayContaining([
        "--name=one",
        "--address=203.0.113.9",
        "--address=2001:db8::9",
        "--base-port=21000",
        "--tls-port=443",
        "--pair-limit=100",
      ]),
    );
    expect(two?.args).toEqual(expect.arrayContaining(["--name=two", "--address=203.0.113.10"]));
    expect(await misuse(one?.args ?? [])).toBe("");
    expect(podsOf(manifests).map((it) => it.spec["nodeSelector"])).toEqual([
      { relay: "one" },
      { relay: "two" },
    ]);
  });

  it("makes a key for each relay without one", async () => {
    const manifests = await render(program, CHART, RELAYS);
    const secrets = manifests.filter((it) => it.kind === "Secret");
    expect(secrets.map((it) => it.metadata.name)).toEqual(["fleet-fairlead-relay-one"]);
    const key = Buffer.from(String(at(secrets[0], "data", "key")), "base64").toString();
    expect(keyBytes(key, "key")).toHaveLength(32);
    const mounted = podsOf(manifests).map((it) => at(it.spec, "volumes", 0, "secret", "secretName"));
    expect(mounted).toEqual(["fleet-fairlead-relay-one", "own-key"]);
  });

  it("has two capabilities if the kernel forwards, and no privilege otherwise", async () => {
    const inKernel = securityOf(await render(program, CHART, RELAYS));
    expect(inKernel.pod).toMatchObject({ runAsUser: 0, seccompProfile: { type: "RuntimeDefault" } });
    expect(inKernel.container).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"], add: ["NET_ADMIN", "NET_BIND_SERVICE"] },
    });
    const values = [...RELAYS, "kernelForwarding=false", "tlsPort=8443"];
    const manifests = await render(program, CHART, values);
    expect(securityOf(manifests)).toMatchObject({
      pod: { runAsNonRoot: true, runAsUser: 65_532 },
      container: { capabilities: { drop: ["ALL"] }, allowPrivilegeEscalation: false },
    });
    expect(containersOf(manifests)[0]?.args).toContain("--forward=userspace");
  });

  it.each([
    [["kernelForwarding=false"], "tlsPort below 1024"],
    [["relays[0].name=One"], "name"],
    [["relays[0].name=one", "relays[0].addresses[0]=example.com"], "addresses"],
    [["basePort=65000"], "basePort"],
    [["nonsense=1"], "nonsense"],
  ])("rejects %s", async (values, message) => {
    const set = values.flatMap((it) => ["--set", it]);
    const args = ["template", "fleet", chartFolder(CHART), ...set];
    const { exitCode, stderr } = await runHelm(program, args, { allowFailure: true });
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain(message);
  });
});
