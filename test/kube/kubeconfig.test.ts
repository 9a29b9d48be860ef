import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { type Logger, silentLogger } from "@fairlead/base/log.ts";
import { inClusterConfig } from "@fairlead/kube/config/in-cluster.ts";
import {
  type KubeconfigOptions,
  loadKubeconfig,
  loadKubeconfigs,
  readKubeconfig,
} from "@fairlead/kube/config/kubeconfig.ts";

const PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const base64 = (text: string): string => Buffer.from(text).toString("base64");

let folder: string;
let clock: FakeClock;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "kubeconfig-"));
  clock = new FakeClock();
});
afterEach(() => rm(folder, { recursive: true }));

interface Parts {
  readonly cluster?: Record<string, unknown>;
  readonly user?: Record<string, unknown>;
}

async function load(parts: Parts, options: KubeconfigOptions = {}) {
  const path = join(folder, "config");
  await writeFile(path, textOf(parts));
  return loadKubeconfig(path, { clock, ...options });
}

function textOf({ cluster, user }: Parts): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "lab",
    contexts: [
      { name: "lab", context: { cluster: "east", user: "admin", namespace: "work" } },
      { name: "other", context: { cluster: "nowhere", user: "admin" } },
    ],
    clusters: [{ name: "east", cluster: cluster ?? { server: "https://10.0.0.1:6443/" } }],
    users: [{ name: "admin", user: user ?? {} }],
  });
}

describe("a kubeconfig", () => {
  it("gives the server, the authority, the namespace and an inline certificate of its current context", async () => {
    const config = await load({
      cluster: {
        server: "https://10.0.0.1:6443/",
        "certificate-authority-data": base64(PEM),
        "tls-server-name": "api",
      },
      user: { "client-certificate-data": base64(PEM), "client-key-data": base64(PEM) },
    });
    expect(config).toMatchObject({
      name: "lab",
      server: "https://10.0.0.1:6443",
      ca: PEM,
      tlsServerName: "api",
      namespace: "work",
    });
    expect(await config.credentials.current()).toEqual({ certificate: PEM, key: PEM });
  });

  it("finds files relative to itself, and reads them again after a minute or when they were rejected", async () => {
    await writeFile(join(folder, "token"), "first\n");
    await writeFile(join(folder, "ca.pem"), PEM);
    const { credentials, ca } = await load({
      cluster: { server: "https://h", "certificate-authority": "ca.pem" },
      user: { tokenFile: "token", token: "inline" },
    });
    expect(ca).toBe(PEM);
    expect(await credentials.current()).toEqual({ token: "first" });
    await writeFile(join(folder, "token"), "second\n");
    expect(await credentials.current()).toEqual({ token: "first" });
    await clock.advance(60_000);
    expect(await credentials.current()).toEqual({ token: "second" });
    await writeFile(join(folder, "token"), "third\n");
    credentials.expire();
    expect(await credentials.current()).toEqual({ token: "third" });
  });

  it("warns of a server whose certificate is not checked", async () => {
    const warnings: string[] = [];
    const log: Logger = { ...silentLogger, warn: (message) => void warnings.push(message) };
    const config = await load(
      { cluster: { server: "https://h", "insecure-skip-tls-verify": true } },
      { log },
    );
    expect(config.insecureSkipTlsVerify).toBe(true);
    expect(warnings).toEqual([
      "the kubeconfig sets insecure-skip-tls-verify: not verifying the server's certificate",
    ]);
  });

  it.each<[string, Parts & { context?: string }]>([
    ["clusters has no item", { context: "other" }],
    ["clusters[0].cluster.server is missing", { cluster: {} }],
    ["clusters[0].cluster.server must be an http or https URL", { cluster: { server: "10.0.0.1" } }],
    [
      "clusters[0].cluster.proxy-url is not supported",
      { cluster: { server: "https://h", "proxy-url": "http://p" } },
    ],
    [
      "clusters[0].cluster.insecure-skip-tls-verify contradicts",
      {
        cluster: {
          server: "https://h",
          "insecure-skip-tls-verify": true,
          "certificate-authority-data": base64(PEM),
        },
      },
    ],
    [
      "clusters[0].cluster.certificate-authority-data is not base64 of PEM",
      { cluster: { server: "https://h", "certificate-authority-data": "nonsense" } },
    ],
    ["users[0].user.client-key is missing", { user: { "client-certificate-data": base64(PEM) } }],
    ["users[0].user.auth-provider was removed", { user: { "auth-provider": { name: "gcp" } } }],
    ["users[0].user.token must be a text", { user: { token: 5 } }],
    ["users[0].user.exec.apiVersion must be one of", { user: { exec: { apiVersion: "v0", command: "x" } } }],
  ])("is refused where %s", async (message, { context, ...parts }) => {
    const loading = load(parts, context === undefined ? {} : { context });
    await expect(loading).rejects.toMatchObject({
      code: "KUBECONFIG_INVALID",
      message: expect.stringContaining(message) as string,
    });
  });

  it.each([
    [
      { cluster: { "certificate-authority": "/etc/ca.crt" } },
      "clusters[0].cluster.certificate-authority names a file",
    ],
    [{ user: { tokenFile: "/var/run/token" } }, "users[0].user.tokenFile names a file"],
    [
      { user: { "client-certificate": "c", "client-key": "k" } },
      "users[0].user.client-certificate names a file",
    ],
    [
      { user: { exec: { apiVersion: "client.authentication.k8s.io/v1", command: "true" } } },
      "users[0].user.exec runs a program",
    ],
  ])("that is not of this machine is refused with %j", async (parts, message) => {
    const text = textOf({
      cluster: { server: "https://a", ...("cluster" in parts ? parts.cluster : {}) },
      ...("user" in parts ? { user: parts.user } : {}),
    });
    await expect(readKubeconfig("mgmt", text)).rejects.toThrow(`kubeconfig mgmt: ${message}`);
    const allowed = textOf({
      cluster: { server: "https://a", "certificate-authority-data": base64(PEM) },
      user: { token: "t" },
    });
    const { ca, credentials } = await readKubeconfig("mgmt", allowed);
    expect({ ca, ...(await credentials.current()) }).toEqual({ ca: PEM, token: "t" });
  });

  it("names the contexts that there are, where another one is asked for", async () => {
    await expect(load({}, { context: "none" })).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message: expect.stringMatching(/^there is no context "none" in .*; there are /) as string,
    });
  });

  it("is rejected if it is not YAML, not a mapping or does not exist", async () => {
    const path = join(folder, "bad");
    await expect(loadKubeconfig(path)).rejects.toMatchObject({
      code: "KUBECONFIG_INVALID",
      message: `cannot read the kubeconfig ${path}: there is no such file; pass another one, or set KUBECONFIG`,
    });
    await writeFile(path, "a: [");
    await expect(loadKubeconfig(path)).rejects.toThrow(`the kubeconfig ${path} is not YAML`);
    await writeFile(path, "- a");
    await expect(loadKubeconfig(path)).rejects.toThrow("the file must be a mapping");
  });
});

describe("a credential plugin", () => {
  const API = "client.authentication.k8s.io/v1";

  /** A plugin that counts its runs in a file, and prints what `status` says. */
  async function plugin(status: string, rest: Record<string, unknown> = {}) {
    const path = join(folder, "plugin");
    const script = `#!/bin/sh\necho run >> '${join(folder, "runs")}'\necho "$KUBERNETES_EXEC_INFO" > '${join(folder, "info")}'\n${status}\n`;
    await writeFile(path, script);
    await chmod(path, 0o755);
    const exec = {
      apiVersion: API,
      command: "./plugin",
      args: ["--now"],
      env: [{ name: "WHO", value: "me" }],
      ...rest,
    };
    return load({ user: { exec } });
  }
  const print = (status: string): string =>
    `printf '{"apiVersion":"${API}","kind":"ExecCredential","status":${status}}'`;
  const runs = async (): Promise<number> => {
    const { readFile } = await import("node:fs/promises");
    return (await readFile(join(folder, "runs"), "utf8")).trim().split("\n").length;
  };

  it("is run once for many calls, with its arguments and environment, until its token expires", async () => {
    const status = '{"token":"\'$WHO$1\'","expirationTimestamp":"2023-11-14T22:14:20Z"}';
    const { credentials } = await plugin(print(status));
    const [first, second] = await Promise.all([credentials.current(), credentials.current()]);
    expect([first, second]).toEqual([{ token: "me--now" }, { token: "me--now" }]);
    expect(await runs()).toBe(1);
    await clock.advance(50_000);
    await credentials.current();
    expect(await runs()).toBe(2);
    // It has expired by now: a plugin that returns such a credential is called every time.
    credentials.expire();
    await credentials.current();
    expect(await runs()).toBe(3);
  });

  it("receives the cluster when it asks for it", async () => {
    const { readFile } = await import("node:fs/promises");
    const { credentials } = await plugin(print('{"token":"t"}'), { provideClusterInfo: true });
    await credentials.current();
    expect(JSON.parse(await readFile(join(folder, "info"), "utf8"))).toEqual({
      apiVersion: API,
      kind: "ExecCredential",
      spec: { interactive: false, cluster: { server: "https://10.0.0.1:6443" } },
    });
  });

  it.each([
    ["echo no json", "did not print JSON"],
    [print("{}"), "gave neither a token nor a client certificate"],
    [print('{"token":"t","expirationTimestamp":"soon"}'), "expirationTimestamp that is not RFC 3339"],
    ["echo secret; echo no such account >&2; exit 3", "ended with code 3: no such account"],
  ])("that does %s is reported without what it printed", async (script, message) => {
    const { credentials } = await plugin(script);
    const error: unknown = await credentials.current().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "KUBECONFIG_INVALID",
      message: expect.stringContaining(message) as string,
    });
    expect(JSON.stringify(error)).not.toContain("secret");
  });

  it("that is not installed is reported with its install hint", async () => {
    const { credentials } = await plugin("", {
      command: "no-such-plugin-here",
      installHint: "apt install it",
    });
    await expect(credentials.current()).rejects.toThrow("cannot run no-such-plugin-here; apt install it");
  });
});

describe("in a cluster", () => {
  const env = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" };

  it("the mounted ServiceAccount is the identity, and its token is read again when it is renewed", async () => {
    for (const [file, text] of [
      ["token", "first"],
      ["ca.crt", PEM],
      ["namespace", "fleet-system"],
    ] as const)
      await writeFile(join(folder, file), text);
    const config = await inClusterConfig({ env, mount: folder, clock });
    expect(config).toMatchObject({ server: "https://[fd00::1]:443", ca: PEM, namespace: "fleet-system" });
    expect(await config.credentials.current()).toEqual({ token: "first" });
    await writeFile(join(folder, "token"), "second");
    await clock.advance(60_000);
    expect(await config.credentials.current()).toEqual({ token: "second" });
  });

  it("does not exist without the environment of a pod", async () => {
    await expect(inClusterConfig({ env: {}, mount: folder })).rejects.toThrow("not in a cluster");
    await expect(inClusterConfig({ env, mount: folder })).rejects.toThrow("no ServiceAccount is mounted");
  });
});

describe("several kubeconfigs", () => {
  const paths = (): string[] => ["one", "none", "two"].map((it) => join(folder, it));
  async function write(name: string, config: object): Promise<void> {
    await writeFile(join(folder, name), stringify({ apiVersion: "v1", kind: "Config", ...config }));
  }

  it("are merged: for each name the first file counts, and missing files are skipped", async () => {
    await write("one", {
      contexts: [{ name: "hub", context: { cluster: "hub", user: "me" } }],
      users: [{ name: "me", user: { token: "first" } }],
    });
    await write("two", {
      "current-context": "hub",
      clusters: [{ name: "hub", cluster: { server: "https://hub" } }],
      users: [{ name: "me", user: { token: "second" } }],
    });
    const config = await loadKubeconfigs(paths(), { clock });
    expect([config.name, config.server]).toEqual(["hub", "https://hub"]);
    expect(await config.credentials.current()).toEqual({ token: "first" });
    await expect(loadKubeconfigs(paths(), { clock, context: "moon" })).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message: expect.stringMatching(/^there is no context "moon" in .*; there are /) as string,
    });
  });

  it("report the paths that were tried if there is no file", async () => {
    await expect(loadKubeconfigs(paths())).rejects.toMatchObject({
      code: "KUBECONFIG_INVALID",
      message: expect.stringContaining(join(folder, "none")) as string,
    });
  });
});
