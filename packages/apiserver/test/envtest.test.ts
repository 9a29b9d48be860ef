import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { issueAuthority, issueClientCertificate, issueServerCertificate } from "@fairlead/base/pki/issue.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";
import { TestClient } from "./support.ts";

/** The programs that envtest of controller-runtime starts, started as it does (pkg/internal/testing/controlplane). */

const MAIN = join(import.meta.dirname, "..", "..", "fairlead", "src", "main.ts");

let folder: string;
let running: ChildProcess[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fairlead-envtest-"));
  running = [];
});
afterEach(async () => {
  for (const it of running) await stop(it);
  rmSync(folder, { recursive: true, force: true });
});

const envtest = (...args: readonly string[]) =>
  exec(process.execPath, [MAIN, "envtest", ...args], { allowFailure: true });

function run(program: string, flags: readonly string[]): ChildProcess {
  const child = start(program, flags, { stdio: ["ignore", "ignore", "inherit"] });
  running.push(child);
  return child;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}

/** envtest's own patience with a program. Unit: milliseconds. */
const PATIENCE = { timeout: 20_000, interval: 50 };

describe("fairlead envtest", () => {
  it("installs the programs in a folder, and prints it as a path, a shell line or an overview", async () => {
    const path = (await envtest("use", "-p", "path", "--bin-dir", folder)).stdout;
    expect((await envtest("path", "--bin-dir", folder)).stdout).toBe(`${path}\n`);
    expect((await envtest("use", "1.36.x!", "-p", "env", "--bin-dir", folder)).stdout).toBe(
      `export KUBEBUILDER_ASSETS='${path}'\n`,
    );
    expect((await envtest("use", "--bin-dir", folder)).stdout).toMatch(
      /^Version: 1\.36\.\d+\nOS\/Arch: linux\/\w+\nPath: .*\n$/,
    );
    for (const name of ["kube-apiserver", "etcd"])
      expect(statSync(join(path, name)).mode & 0o100).toBe(0o100);
  });

  it("rejects another version, and names the supported one", async () => {
    const { exitCode, stderr } = await envtest("use", "1.31.x", "--bin-dir", folder);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(
      /Kubernetes 1\.31\.x is not supported: this program serves the API of 1\.36\.\d+ only/,
    );
  });
});

describe("an API server that envtest starts", () => {
  it("accepts envtest's flags, certificates and users, needs no ServiceAccount for a pod, and stores its objects in the folder of etcd", async () => {
    const programs = (await envtest("use", "-p", "path", "--bin-dir", folder)).stdout;
    const ca = await issueAuthority({ commonName: "envtest" });
    const users = await issueAuthority({ commonName: "users" });
    const serving = await issueServerCertificate(ca, { names: ["localhost"], ips: ["127.0.0.1"] });
    const admin = await issueClientCertificate(users, {
      commonName: "admin",
      organizations: ["system:masters"],
    });
    const plain = await issueClientCertificate(users, { commonName: "plain" });
    const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
    write("apiserver.crt", serving.cert);
    write("apiserver.key", serving.key);
    write("client-cert-auth-ca.crt", users.cert);
    const etcdUrl = `http://127.0.0.1:${await freePort()}`;
    const port = await freePort();
    run(join(programs, "etcd"), [
      `--advertise-client-urls=${etcdUrl}`,
      `--listen-client-urls=${etcdUrl}`,
      "--listen-peer-urls=http://localhost:0",
      `--data-dir=${join(folder, "etcd")}`,
      "--unsafe-no-fsync=true",
    ]);
    await vi.waitFor(async () => expect((await fetch(`${etcdUrl}/health`)).status).toBe(200), PATIENCE);
    const launch = (): ChildProcess =>
      run(join(programs, "kube-apiserver"), [
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        `--cert-dir=${folder}`,
        `--client-ca-file=${join(folder, "client-cert-auth-ca.crt")}`,
        "--disable-admission-plugins=ServiceAccount",
        `--etcd-servers=${etcdUrl}`,
        `--secure-port=${port}`,
        `--service-account-issuer=https://127.0.0.1:${port}/`,
        `--service-account-key-file=${join(folder, "sa-signer.crt")}`,
        `--service-account-signing-key-file=${join(folder, "sa-signer.key")}`,
        "--service-cluster-ip-range=10.0.0.0/24",
      ]);
    const as = (user: CertificatePair): TestClient => new TestClient({ port, ca: ca.cert, admin: user });

    const first = launch();
    const pods = "/api/v1/namespaces/default/pods";
    const healthy = async (): Promise<void> =>
      expect((await as(admin).call("GET", "/healthz")).code).toBe(200);
    await vi.waitFor(healthy, PATIENCE);
    expect((await as(plain).call("GET", pods)).code).toBe(403);
    const pod = { metadata: { name: "p" }, spec: { containers: [{ name: "c", image: "x" }] } };
    const made = await as(admin).call("POST", pods, { body: pod });
    expect(made.code).toBe(201);
    expect(made.json).toMatchObject({ spec: { containers: [{ name: "c" }] } });
    expect((made.json as { spec: object }).spec).not.toHaveProperty("serviceAccountName");

    await stop(first);
    launch();
    await vi.waitFor(healthy, PATIENCE);
    expect((await as(admin).call("GET", `${pods}/p`)).code).toBe(200);
    expect(readFileSync(join(folder, "apiserver.crt"), "utf8")).toBe(serving.cert);
  });
});
