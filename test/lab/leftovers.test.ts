/** A lab on a machine: what it adds while it is up, and that nothing of it stays, whatever became of it. */

import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { endProcesses, findLabProcesses, startTicksOf } from "@fairlead/lab/processes.ts";
import { readState } from "@fairlead/lab/state.ts";
import {
  checkout,
  makeStateRoot,
  podProcesses,
  runFairlead,
  startLab,
  upArgs,
} from "../support/lab-fixture.ts";
import { until } from "../support/waiting.ts";
import { echoDeployment, mcsExport, namespace, service } from "../support/lab-manifests.ts";
import { pidOf } from "../support/lab-programs.ts";
import { type MachineSnapshot, takeSnapshot } from "./machine-snapshot.ts";
import { sampleOf } from "../support/sample.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";

/** Names, and a user, of this run: another may be under way on this machine. */
const OWN = (process.pid % 36 ** 3).toString(36).padStart(3, "0");
const [LEFT, MEND, SIDE, STOP, USER] = [
  `eleft${OWN}`,
  `emend${OWN}`,
  `eside${OWN}`,
  `estop${OWN}`,
  `euser${OWN}`,
];
const HELLO = { namespace: "work", name: "hello" };
const DEADLINE_MS = 60_000;
const SIGNAL = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);

/**
 * Lines that a machine has more or fewer of than before. Other labs on this machine start and stop: lines with
 * the names of their links or in their folders are left out.
 */
function differences(
  before: MachineSnapshot,
  after: MachineSnapshot,
  own: { readonly name: string; readonly stateRoot: string },
): readonly string[] {
  const isForeign = (line: string): boolean =>
    !line.includes(`fl-${own.name}`) && !line.includes(own.stateRoot) && /\bfl-|fairlead/.test(line);
  const texts = ["links", "routes", "rules", "nftables", "mounts", "files"] as const;
  return texts.flatMap((field) => {
    const lines = [before[field], after[field]].map((it) => it.split(field === "files" ? /[\n ]/ : "\n"));
    const [old = [], now = []] = lines;
    return [
      ...old.filter((it) => !now.includes(it)).map((it) => `- ${it}`),
      ...now.filter((it) => !old.includes(it)).map((it) => `+ ${it}`),
    ].filter((it) => !isForeign(it));
  });
}

describeOnKernel("a machine after a lab", () => {
  it("is as it was before: after lab down, and after every process of the lab was killed", async () => {
    const before = await takeSnapshot("/");
    const stateRoot = makeStateRoot();
    const own = { name: LEFT, stateRoot };
    for (const end of ["down", "crash"] as const) {
      await using lab = await startLab({ name: own.name, stateRoot });
      await lab.apply(
        "member-1",
        namespace("work"),
        echoDeployment(HELLO, 2),
        service(HELLO),
        mcsExport(HELLO),
      );
      await lab.kubectl("member-1", ["-n", "work", "rollout", "status", "deployment/hello", "--timeout=60s"]);
      const during = await takeSnapshot(lab.layout.root);
      expect(during.processes.length).toBeGreaterThan(14);
      const added = differences(before, during, own).filter((it) => /^[+-] \d+: /.test(it));
      expect(added).toEqual([expect.stringContaining(`fl-${LEFT}`)]);
      expect([during.rules, during.nftables]).toEqual([before.rules, before.nftables]);
      if (end === "crash") {
        await endProcesses(findLabProcesses(lab.layout.root), 0, systemClock, SIGNAL());
        const args = ["lab", "status", "--name", LEFT];
        const status = await runFairlead(stateRoot, args, { allowFailure: true });
        expect(status.exitCode).toBe(3);
        expect(status.stdout).toContain(`fairlead lab up --name ${LEFT} restarts what is stopped.`);
      }
      const { stdout } = await lab.lab("down");
      expect(stdout).toMatch(
        new RegExp(`Lab ${LEFT} is down: \\d+ processes, \\d+ namespaces, \\d+ mounts removed`),
      );
      const after = await takeSnapshot(lab.layout.root);
      expect(after.processes).toEqual([]);
      expect(differences(before, after, own)).toEqual([]);
      expect(existsSync(lab.layout.root)).toBe(false);
      expect((await lab.lab("down")).stdout).toBe(`Lab ${LEFT} is not up.\n`);
    }
    expect(existsSync(stateRoot)).toBe(false);
  });
});

describeOnKernel("lab up", () => {
  let lab: Awaited<ReturnType<typeof startLab>>;
  beforeAll(async () => {
    lab = await startLab({ name: MEND, members: 1 });
    await lab.apply("member-1", namespace("work"), echoDeployment(HELLO, 1), service(HELLO));
    await lab.kubectl("member-1", ["-n", "work", "rollout", "status", "deployment/hello", "--timeout=60s"]);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  const again = () => runFairlead(lab.stateRoot, upArgs({ name: MEND, members: 1 }));

  it("starts nothing if everything runs", async () => {
    const before = pidOf(lab, "member-1/apiserver");
    expect((await again()).stdout).toContain("0 programs started");
    expect(pidOf(lab, "member-1/apiserver")).toBe(before);
  });

  it("brings back what was killed, and leaves pods and everything else as they are", async () => {
    const pods = await podProcesses(lab, "member-1");
    expect(pods).toHaveLength(1);
    const dead = ["member-1/apiserver", "member-1/node-1", "hub/hub"];
    await endProcesses(
      dead.map((it) => pidOf(lab, it)),
      0,
      systemClock,
      SIGNAL(),
    );
    const kept = pidOf(lab, "hub/apiserver");
    expect((await again()).stdout).toContain("3 programs started");
    expect(pidOf(lab, "hub/apiserver")).toBe(kept);
    expect(await podProcesses(lab, "member-1")).toEqual(pods);
  });

  it("replaces a program that a command started and did not record, because it was killed", async () => {
    const names = ["member-1/apiserver", "hub/hub", "member-1/member"];
    const unknown = names.map((it) => ({ pid: pidOf(lab, it), startTicks: startTicksOf(pidOf(lab, it)) }));
    const pods = await podProcesses(lab, "member-1");
    for (const name of names) rmSync(lab.layout.processFile(name));
    expect((await again()).stdout).toContain("3 programs started");
    expect(unknown.filter((it) => startTicksOf(it.pid) === it.startTicks)).toEqual([]);
    expect(await podProcesses(lab, "member-1")).toEqual(pods);
  });

  it("restores what lab kill removed, links too", async () => {
    await lab.lab("kill", ["link/member-1"]);
    await lab.lab("kill", ["member-1/lab-controllers"]);
    await again();
    const status = JSON.parse((await lab.lab("status", ["-o", "json"])).stdout) as {
      killed: unknown;
      clusters: { link: string; programs: { pid?: number }[] }[];
    };
    expect(status.killed).toEqual([]);
    expect(status.clusters.map((it) => it.link)).toEqual(["up", "up"]);
    expect(status.clusters.flatMap((it) => it.programs).every((it) => it.pid !== undefined)).toBe(true);
  });

  it("recreates lost parts of the network: a node's namespace, the link to the machine", async () => {
    const netns = lab.layout.netnsOf("member-1-node-1");
    await exec("umount", ["--lazy", "--", netns]);
    await exec("ip", ["link", "delete", "dev", `fl-${MEND}`]);
    await again();
    await until(
      "the node is ready and its pod too",
      async () => (await lab.lab("status")).stdout,
      (it) => /member-1 .* 1\/1 +1\/1/.test(it) || /member-1 .*1\/1 ready +1\/1 ready/.test(it),
    );
    await lab.kubectl("member-1", ["-n", "work", "rollout", "status", "deployment/hello", "--timeout=30s"]);
  });

  it("refuses another shape, names and numbers that cannot be", async () => {
    const refusal = async (...args: readonly string[]) => {
      const options = { allowFailure: true };
      const { exitCode, stderr } = await runFairlead(lab.stateRoot, ["lab", "up", ...args], options);
      return `${exitCode}: ${stderr}`;
    };
    expect(await refusal("--name", MEND, "--members", "2")).toMatch(
      /^1: .*is up with 1 members of 1 nodes.*run "fairlead lab down --name/s,
    );
    expect(await refusal("--name", "../x")).toMatch(/^2: .*the name must have 1 to 12/);
    expect(await refusal("--name", "much-too-long-a-name")).toMatch(/^2: .*the name must have 1 to 12/);
    expect(await refusal("--name", "enew", "--members", "0", "--nodes", "9")).toMatch(
      /^2: .*members.*nodes/s,
    );
    expect(await refusal("--name", "enew", "--members", "two")).toMatch(
      /^2: .*--members must be a whole number/,
    );
    expect(await refusal("--name", "enew", "--topology", "ring")).toMatch(/^2: .*topology must be flat/);
    expect(readState(labLayout(lab.stateRoot, "enew"))).toBeUndefined();
  });

  it("rejects the name of a lab in another state folder, whose link it would replace", async () => {
    const elsewhere = makeStateRoot();
    try {
      const args = upArgs({ name: MEND, members: 1 });
      const { exitCode, stderr } = await runFairlead(elsewhere, args, { allowFailure: true });
      expect(exitCode).toBe(1);
      expect(stderr).toContain("in another state folder; pass another --name");
      expect(existsSync(`/sys/class/net/fl-${MEND}`)).toBe(true);
    } finally {
      rmSync(elsewhere, { recursive: true, force: true });
    }
  });

  it("coexists with another lab in other addresses, which can be removed alone", async () => {
    await using other = await startLab({ name: SIDE, members: 1, stateRoot: lab.stateRoot });
    expect(other.topology.block.v4).not.toBe(lab.topology.block.v4);
    const up = async (name: string) =>
      (await lab.kubectl("member-1", ["get", "--raw", "/readyz"])).stdout === "ok" && name;
    expect(await up(MEND)).toBe(MEND);
    expect((await other.kubectl("member-1", ["get", "nodes", "-o", "name"])).stdout).toBe(
      "node/member-1-node-1\n",
    );
    await other.lab("down");
    expect(await up(MEND)).toBe(MEND);
    expect((await again()).stdout).toContain("0 programs started");
  });
});

/** The step at which `lab up` is interrupted, as it prints it. */
const STEPS = ["network namespaces and links", "API servers", "managers, DNS servers and nodes"];

const INTERRUPTIONS = [
  ...STEPS.map((step) => ({ step, signal: "SIGINT" as const })),
  // Nothing of the command can tidy up after this one: programs that do not serve yet stay behind.
  { step: "API servers", signal: "SIGKILL" as const },
  { step: "managers, DNS servers and nodes", signal: "SIGKILL" as const },
];

/** How long `lab up` works until it is killed: as long as it takes on a machine that is not busy. */
const MOMENTS_MS = Array.from({ length: 40 }, (_, at) => 100 + 100 * at);

describeOnKernel("lab up that is interrupted", () => {
  /** Interrupts a `lab up`; another one and `lab down` follow. */
  const interrupt = async (
    signal: NodeJS.Signals,
    at: { readonly step: string } | { readonly atMs: number },
  ): Promise<void> => {
    const stateRoot = makeStateRoot();
    const shape = { name: STOP, members: 1 };
    const down = () => runFairlead(stateRoot, ["lab", "down", "--name", STOP]);
    await using _lab = { [Symbol.asyncDispose]: async () => void (await down()) };
    const child = start(`${checkout}bin/fairlead`, upArgs(shape), {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"] ?? "", FAIRLEAD_STATE: stateRoot },
    });
    // Not "close": programs that outlive the command hold its standard error.
    const code = new Promise<number | string | null>((resolve) => {
      child.once("exit", (it, by) => resolve(it ?? by));
    });
    using _timer = "atMs" in at ? systemClock.after(at.atMs, () => child.kill(signal)) : undefined;
    child.stdout?.on("data", (chunk: Buffer) => {
      if ("step" in at && chunk.toString("utf8").includes(at.step)) child.kill(signal);
    });
    const expected = signal === "SIGINT" ? 130 : signal;
    // A quick machine may have finished before the moment.
    expect("atMs" in at ? [expected, 0] : [expected]).toContain(await code);
    if (!("step" in at) || at.step !== STEPS[0]) {
      await using lab = await startLab({ ...shape, stateRoot });
      expect((await lab.lab("status")).stdout).toMatch(/member-1 .*6\/6/);
    }
    await down();
    expect(existsSync(stateRoot)).toBe(false);
    expect(existsSync(`/sys/class/net/fl-${STOP}`)).toBe(false);
  };

  it.each(sampleOf(INTERRUPTIONS, [4]))(
    "by $signal at the step '$step' leaves a lab that lab up completes and lab down removes",
    async ({ signal, step }) => interrupt(signal, { step }),
  );

  it.each(sampleOf(MOMENTS_MS, [2]))(
    "by SIGKILL %d ms after its start leaves a lab that lab up completes and lab down removes",
    async (atMs) => interrupt("SIGKILL", { atMs }),
  );
});

/** When `lab upgrade` is killed, counted from its report that it begins with the API server: until it has removed the former node. */
const UPGRADE_MOMENTS_MS = Array.from({ length: 40 }, (_, at) => 60 * at);

describeOnKernel("lab upgrade that is killed", () => {
  let lab: Awaited<ReturnType<typeof startLab>>;
  let release = "1.35";
  beforeAll(async () => {
    lab = await startLab({ name: STOP, members: 1, flags: ["--kubernetes-version", release] });
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it.each(sampleOf(UPGRADE_MOMENTS_MS, [2]))(
    "after %d ms leaves a cluster that another lab upgrade completes",
    async (afterMs) => {
      release = release === "1.35" ? "1.36" : "1.35";
      const args = ["lab", "upgrade", "--name", STOP, "--kubernetes-version", release, "member-1"];
      const child = start(`${checkout}bin/fairlead`, args, {
        stdio: ["ignore", "pipe", "ignore"],
        env: { PATH: process.env["PATH"] ?? "", FAIRLEAD_STATE: lab.stateRoot },
      });
      const exited = new Promise((resolve) => void child.once("exit", resolve));
      let timer: Disposable | undefined;
      child.stdout?.on("data", () => {
        timer ??= systemClock.after(afterMs, () => child.kill("SIGKILL"));
      });
      await exited;
      timer?.[Symbol.dispose]();
      await runFairlead(lab.stateRoot, args);
      expect((await lab.lab("status")).stdout).toMatch(/member-1 .*6\/6/);
      const version = JSON.parse((await lab.kubectl("member-1", ["get", "--raw", "/version"])).stdout) as {
        gitVersion: string;
      };
      const { items } = await (await lab.client("member-1")).list(NODES);
      const served = items.map((it) => it.status?.nodeInfo?.["kubeletVersion"]?.slice(0, 5));
      expect([version.gitVersion.slice(0, 5), served]).toEqual([`v${release}`, [`v${release}`]]);
      expect(items.map((it) => it.spec?.unschedulable ?? false)).toEqual([false]);
      expect(readdirSync(join(lab.layout.root, "nodes"))).toEqual(items.map((it) => it.metadata.name));
    },
  );
});

/** A user that does not exist on this machine. */
const UID = 64_000 + (process.pid % 1000);

describeOnKernel("a lab without root", () => {
  it("runs in a user namespace, which its commands enter, and leaves nothing", async () => {
    const folder = mkdtempSync("/tmp/fairlead-user-");
    const state = join(folder, "s");
    const modules = join(folder, "checkout", "node_modules");
    const asUser = (...args: readonly string[]) =>
      exec(
        "setpriv",
        [
          `--reuid=${UID}`,
          `--regid=${UID}`,
          "--clear-groups",
          "--",
          join(folder, "checkout/bin/fairlead"),
          ...args,
        ],
        {
          cwd: join(folder, "checkout"),
          env: { PATH: process.env["PATH"] ?? "", HOME: folder, FAIRLEAD_STATE: state },
          timeoutMs: 100_000,
          allowFailure: true,
        },
      );
    try {
      mkdirSync(join(folder, "checkout"));
      for (const part of [
        "bin",
        "packages",
        "scripts",
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        "tsconfig.base.json",
        "dist",
      ])
        cpSync(join(checkout, part), join(folder, "checkout", part), { recursive: true });
      mkdirSync(modules);
      await exec("chown", ["-R", "-h", `${UID}:${UID}`, folder]);
      // The user may not enter the folder of this checkout, such as one below /root: no link leads there.
      await exec("mount", ["-o", "bind,ro", "--", join(checkout, "node_modules"), modules]);
      for (const verb of ["status", "down", "list"]) await asUser("lab", verb);
      expect([existsSync(state), processesOf(UID)]).toEqual([false, []]);
      const up = await asUser("lab", "up", "--name", USER, "--members", "1", "--nodes", "1");
      expect(`${up.exitCode} ${up.stdout}${up.stderr}`).toMatch(new RegExp(`^0 .*Lab ${USER} is up`, "s"));
      expect(up.stdout).toContain(`fairlead lab shell --name ${USER}`);
      expect(up.stdout).not.toContain("export KUBECONFIG");
      expect((await asUser("lab", "list", "-o", "name")).stdout).toBe(`${USER}\n`);
      const here = await asUser("lab", "shell", "--name", USER, "--", "sh", "-c", "pwd; ls bin/fairlead");
      expect(here.stdout).toBe(`${folder}/checkout\nbin/fairlead\n`);
      expect((await asUser("lab", "status", "--name", USER)).stdout).toMatch(/member-1 .*6\/6/);
      const nodes = await asUser("lab", "kubectl", "--name", USER, "member-1", "get", "nodes", "-o", "name");
      expect(nodes).toMatchObject({ exitCode: 0, stdout: "node/member-1-node-1\n" });
      const inside = await asUser("lab", "shell", "--name", USER, "member-1-node-1", "ip", "-br", "link");
      expect(inside.stdout).toContain("eth0");
      expect(existsSync(`/sys/class/net/fl-${USER}`)).toBe(false);
      const kubectl = (...args: readonly string[]) =>
        asUser("lab", "kubectl", "--name", USER, "member-1", ...args);
      await kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s");
      const shown = ["echo >/proc/sys/vm/swappiness", "grep -c . /proc/self/mountinfo"].join("; ");
      await kubectl("run", "pod", "--image=busybox", "--restart=Never", "--", "sh", "-c", shown);
      await kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/pod", "--timeout=30s");
      expect((await kubectl("logs", "pod")).stdout).toMatch(/Read-only file system\n\d+\n$/);
      const down = await asUser("lab", "down", "--name", USER);
      expect(`${down.exitCode} ${down.stdout}${down.stderr}`).toMatch(
        new RegExp(`^0 .*Lab ${USER} is down`, "s"),
      );
      await until(
        "no process of that user",
        async () => processesOf(UID),
        (it) => it.length === 0,
      );
      expect(existsSync(state)).toBe(false);
    } finally {
      await asUser("lab", "down", "--name", USER);
      // Fails where it was not mounted, and what follows fails where it stays: it is read-only.
      await exec("umount", ["--", modules], { allowFailure: true });
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

function processesOf(uid: number): readonly string[] {
  return readdirSync("/proc").filter((it) => {
    try {
      return /^\d+$/.test(it) && statSync(`/proc/${it}`).uid === uid;
    } catch {
      return false;
    }
  });
}
