/** What a pod cannot do to the machine that it runs on, unless it is privileged. */

import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Container, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { buildBundle } from "../../scripts/bundle.ts";
import { checkout } from "../support/lab-fixture.ts";
import { ECHO, IDLE, NodeWorld, script } from "./node-world.ts";

describeOnKernel("a container of the lab", () => {
  let world: NodeWorld;
  beforeAll(async () => {
    world = await NodeWorld.create();
    await world.startNode();
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  /** What a container printed that ran to its end. */
  async function said(
    name: string,
    text: string,
    more: Partial<Container> = {},
    spec: Partial<Pod["spec"]> = {},
  ) {
    await world.createPod(name, [{ ...script(text), ...more }], { restartPolicy: "Never", ...spec });
    const pod = await world.until(name, (it) => ["Succeeded", "Failed"].includes(it?.status?.phase ?? ""));
    const log = readFileSync(join(world.runFolder(pod!, "main"), "log"), "utf8")
      .trim()
      .split("\n");
    await world.deletePod(name);
    return log;
  }

  /** Writes what a file of the kernel says back into it. */
  const WRITE_BACK = `v=$(cat /proc/sys/kernel/core_pattern); echo "$v" >/proc/sys/kernel/core_pattern && echo written`;

  it("cannot change settings of the kernel for the whole machine, although it is root", async () => {
    const files = ["/proc/sys/vm/swappiness", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger"].filter(
      (it) => existsSync(it),
    );
    const folders = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];
    const log = await said(
      "harmless",
      `${WRITE_BACK}; for f in ${files.join(" ")}; do (: >>$f); done 2>&1; cut -d ' ' -f 5,6 /proc/self/mountinfo; ` +
        "wc -c </proc/timer_list 2>&1",
    );
    expect(log).not.toContain("written");
    expect(log.filter((it) => it.includes("Read-only file system"))).toHaveLength(1 + files.length);
    for (const folder of folders) expect(log).toContainEqual(expect.stringMatching(`^${folder} ro,`));
    expect(log.at(-1)).toMatch(/^0$|No such file/);
  });

  it("may when it is privileged", async () => {
    expect(await said("privileged", WRITE_BACK, { securityContext: { privileged: true } })).toEqual([
      "written",
    ]);
  });

  it("has the sysctls of its pod", async () => {
    const sysctls = [{ name: "net.ipv4.ip_local_port_range", value: "40000 40999" }];
    const log = await said(
      "tuned",
      "cat /proc/sys/net/ipv4/ip_local_port_range",
      {},
      { securityContext: { sysctls } },
    );
    expect(log.map((it) => it.split(/\s+/))).toEqual([["40000", "40999"]]);
  });

  it("sees no password of the machine, nor anything else in /etc that only root may read", async () => {
    const log = await said(
      "curious",
      "cat /etc/shadow; ls -l /etc/shadow | cut -c1-10; cat /etc/gshadow 2>&1; find /etc -type f ! -perm -004 ! -name shadow",
    );
    expect(log[0]).toBe("root:*::0:99999:7:::");
    expect(log[1]).toBe("-rw-r-----");
    expect(log.slice(2)).toEqual([expect.stringContaining("No such file")]);
  });

  /** An init container puts a link into a volume; the other mounts what lies behind it. */
  async function mountBehindLink(name: string, { to, subPath }: { to: string; subPath: string }) {
    const volumeMounts = [{ name: "v", mountPath: "/v" }];
    await world.createPod(
      name,
      [{ ...script(IDLE), volumeMounts: [{ name: "v", mountPath: "/x", subPath }] }],
      {
        volumes: [{ name: "v", emptyDir: {} }],
        initContainers: [{ ...script(`ln -s ${to} /v/link`, "init"), volumeMounts }],
      },
    );
    const waiting = (pod: Pod | undefined) => pod?.status?.containerStatuses?.[0]?.state?.waiting;
    const pod = await world.until(name, (it) => waiting(it)?.reason === "CreateContainerConfigError");
    expect(pod?.status?.initContainerStatuses?.[0]?.state?.terminated?.exitCode).toBe(0);
    const failures = async () => (await world.events(name)).filter((it) => it.startsWith("Failed"));
    await expect.poll(failures, { timeout: 20_000 }).toHaveLength(1);
    await world.deletePod(name);
    return waiting(pod)?.message;
  }

  it("creates nothing on the machine through a subPath that leaves the volume, and its pod reports the reason", async () => {
    const outside = mkdtempSync("/var/tmp/fairlead-outside-");
    try {
      const message = await mountBehindLink("leads-out", { to: outside, subPath: "link/made" });
      expect(message).toBe(
        'failed to prepare subPath for volumeMount at "/x" of container "main": subPath "link/made" leads out of the volume',
      );
      expect(readdirSync(outside)).toEqual([]);
    } finally {
      rmSync(outside, { recursive: true });
    }
  });

  it("reports a subPath that is a dangling link", async () => {
    const message = await mountBehindLink("leads-nowhere", { to: "/nowhere", subPath: "link/made" });
    expect(message).toContain('subPath "link/made" is a link to a path that does not exist');
    expect(existsSync("/nowhere")).toBe(false);
  });

  it("mounts files and folders of volumes by subPath, and leaves no mount of them on the node", async () => {
    const volumes = [{ name: "v", emptyDir: {} }];
    const init = {
      ...script("mkdir -p /v/real && echo one >/v/real/file && ln -s real /v/link", "init"),
      volumeMounts: [{ name: "v", mountPath: "/v" }],
    };
    const volumeMounts = [
      { name: "v", mountPath: "/folder", subPath: "link" },
      { name: "v", mountPath: "/etc/file", subPath: "link/file" },
      { name: "v", mountPath: "/new", subPath: "made/here" },
      { name: "v", mountPath: "/v" },
    ];
    const text =
      "cat /folder/file /etc/file; echo two >/etc/file; cat /v/real/file; touch /new/x; ls /v/made/here; " +
      `ls -A /v | tr '\\n' ' '`;
    const log = await said("sub-paths", text, { volumeMounts }, { volumes, initContainers: [init] });
    expect(log.map((it) => it.trim())).toEqual(["one", "one", "two", "x", "link made real"]);
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(".sub-path-");
  });

  it.each(["/root", "/home", "/mnt", "/media", "/tmp"])(
    "runs programs of Fairlead as any user from a folder below %s that only its owner may enter, and shows nothing else of it",
    async (parent) => {
      const folder = mkdtempSync(join(parent, "fairlead programs ä "));
      try {
        await world.killNode();
        await world.startNode(await installIn(folder));
        const securityContext = { runAsUser: 1000, runAsGroup: 1000 };
        const looks =
          "id -u; find /root /home /mnt /media /tmp /run/fairlead -name secret; ls -A /root /home /mnt /media /tmp; ls -A /run/fairlead; " +
          `node -p '"Node " + (6 * 7)'`;
        const own = { image: "fairlead.dev/fairlead", securityContext };
        const log = await said("looks-around", looks, own);
        const empty = ["/root:", "", "/home:", "", "/mnt:", "", "/media:", "", "/tmp:"];
        const files = ["bin", "lib", "node", "node_modules"];
        expect(log.toSorted()).toEqual(["1000", ...empty, ...files, "Node 42"].toSorted());
        await world.createPod("serves", [{ ...ECHO, securityContext }]);
        await world.untilReady("serves");
        await world.deletePod("serves");
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );
});

/** @returns The entry file of a bundle with its packages, next to a file that does not belong to it. */
async function installIn(folder: string): Promise<string> {
  await buildBundle(join(folder, "dist/1"));
  for (const name of ["koffi", `@koromix/koffi-linux-${process.arch}`])
    cpSync(join(checkout, "node_modules", name), join(folder, "node_modules", name), { recursive: true });
  for (const name of ["package.json", "secret"]) writeFileSync(join(folder, name), "{}");
  return join(folder, "dist/1/fairlead.mjs");
}
