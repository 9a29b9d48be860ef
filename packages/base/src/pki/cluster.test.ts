import { X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rm, stat, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { FakeClock } from "#clock.fake.ts";
import { ensureClientCertificate, ensureClusterPki } from "./cluster.ts";
import { issueClientCertificate, issueServerCertificate } from "./issue.ts";
import { generatePrivateKey } from "./keys.ts";
import { renderKubeconfig } from "./kubeconfig.ts";

describe("the PKI of a cluster", () => {
  let dir = "";
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "pki-"));
  });
  afterEach(() => rm(dir, { recursive: true }));

  async function filesOf(folder: string): Promise<Map<string, string>> {
    const names = (await readdir(folder)).toSorted();
    return new Map(
      await Promise.all(
        names.map(async (name) => [name, await readFile(join(folder, name), "utf8")] as const),
      ),
    );
  }

  it.each(["sa.key", "ca.crt", "ca.key"])("is refused by its name when %s is damaged", async (file) => {
    await ensureClusterPki(dir);
    await writeFile(join(dir, file), "");
    await expect(ensureClusterPki(dir)).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message: expect.stringMatching(new RegExp(`${dir}.*|${file}`)) as string,
    });
  });

  it("is made once, and every later call reads the same", async () => {
    const first = await ensureClusterPki(dir, { serverSans: ["10.0.0.1", "api.example"] });
    const files = await filesOf(dir);
    expect([...files.keys()]).toEqual([
      "apiserver.crt",
      "apiserver.key",
      "ca.crt",
      "ca.key",
      "kubelet-client.crt",
      "kubelet-client.key",
      "sa.key",
      "sa.pub",
    ]);
    expect(await ensureClusterPki(dir, { serverSans: ["api.example", "10.0.0.1"] })).toEqual(first);
    expect(await filesOf(dir)).toEqual(files);
  });

  it("is readable by its owner alone", async () => {
    await ensureClusterPki(dir);
    for (const name of await readdir(dir)) expect((await stat(join(dir, name))).mode & 0o777).toBe(0o600);
  });

  it("names the server as asked, in both address families, and under the names of its Service", async () => {
    const { apiserver, ca } = await ensureClusterPki(dir, { serverSans: ["fd00::1", "10.0.0.1"] });
    const certificate = new X509Certificate(apiserver.cert);
    expect(certificate.verify(new X509Certificate(ca.cert).publicKey)).toBe(true);
    for (const ip of ["fd00::1", "10.0.0.1", "127.0.0.1", "::1"]) expect(certificate.checkIP(ip)).toBe(ip);
    expect(certificate.checkHost("kubernetes.default.svc.cluster.local")).toBeDefined();
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
  });

  it("replaces certificates that were issued while the clock was a day ahead, because they are not valid yet", async () => {
    const clock = new FakeClock();
    await ensureClusterPki(dir, { clock });
    const ahead = new FakeClock(clock.now() + 86_400_000);
    await ensureClusterPki(dir, { clock: ahead, serverSans: ["10.0.0.1"] });
    const { apiserver } = await ensureClusterPki(dir, { clock, serverSans: ["10.0.0.1"] });
    expect(new X509Certificate(apiserver.cert).validFromDate.getTime()).toBeLessThanOrEqual(clock.now());
  });

  it("replaces only the server's certificate when the names change", async () => {
    const before = await ensureClusterPki(dir, { serverSans: ["10.0.0.1"] });
    for (const serverSans of [["10.0.0.2"], ["10.0.0.2", "10.0.0.3"], ["10.0.0.3"]]) {
      const after = await ensureClusterPki(dir, { serverSans });
      const certificate = new X509Certificate(after.apiserver.cert);
      const named = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].filter(
        (ip) => certificate.checkIP(ip) !== undefined,
      );
      expect(named).toEqual(serverSans);
      expect({ ...after, apiserver: before.apiserver }).toEqual(before);
    }
  });

  it("renews leaves that near their end, and keeps the authority", async () => {
    const clock = new FakeClock();
    const before = await ensureClusterPki(dir, { clock });
    await clock.advance(340 * 86_400_000);
    const after = await ensureClusterPki(dir, { clock });
    expect(after.ca).toEqual(before.ca);
    expect(after.serviceAccount).toEqual(before.serviceAccount);
    expect(after.apiserver.cert).not.toBe(before.apiserver.cert);
    expect(after.kubeletClient.cert).not.toBe(before.kubeletClient.cert);
  });

  it("reissues a certificate whose key was lost, and refuses an authority with the key of another", async () => {
    const before = await ensureClusterPki(dir);
    await rm(join(dir, "apiserver.key"));
    const after = await ensureClusterPki(dir);
    expect(after.apiserver.key).not.toBe(before.apiserver.key);
    await writeFile(join(dir, "ca.key"), generatePrivateKey());
    await expect(ensureClusterPki(dir)).rejects.toMatchObject({ code: "OPTION_INVALID" });
  });

  it("issues a client certificate for exactly the user and the groups", async () => {
    const { ca } = await ensureClusterPki(dir);
    const pair = await issueClientCertificate(ca, {
      commonName: "system:node:n, O=x",
      organizations: ["system:nodes", "b+c"],
    });
    const certificate = new X509Certificate(pair.cert);
    expect(certificate.toLegacyObject().subject).toMatchObject({
      CN: "system:node:n, O=x",
      O: ["system:nodes", "b+c"],
    });
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
    const server = await issueServerCertificate(ca, { names: ["n"], ips: ["10.0.0.9"] });
    expect(new X509Certificate(server.cert).checkIP("10.0.0.9")).toBe("10.0.0.9");
  });

  it("keeps a client certificate on disk until the user or the groups differ", async () => {
    const { ca } = await ensureClusterPki(dir);
    const admin = { file: "admin", commonName: "kubernetes-admin", organizations: ["system:masters"] };
    const first = await ensureClientCertificate(dir, ca, admin);
    expect(await ensureClientCertificate(dir, ca, admin)).toEqual(first);
    const other = await ensureClientCertificate(dir, ca, { ...admin, organizations: ["viewers"] });
    expect(other.cert).not.toBe(first.cert);
  });
});

describe("a kubeconfig", () => {
  it("holds one context, whatever characters the names have", () => {
    const name = 'odd "name": #1';
    const text = renderKubeconfig({
      server: "https://[fd00::1]:6443",
      ca: "CA",
      token: "secret",
      cluster: name,
      namespace: "work",
    });
    expect(parse(text)).toEqual({
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        { name, cluster: { server: "https://[fd00::1]:6443", "certificate-authority-data": "Q0E=" } },
      ],
      users: [{ name: "admin", user: { token: "secret" } }],
      contexts: [{ name: `admin@${name}`, context: { cluster: name, user: "admin", namespace: "work" } }],
      "current-context": `admin@${name}`,
    });
  });
});
