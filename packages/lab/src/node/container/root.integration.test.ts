import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { planRoot, systemMounts } from "./root.ts";
import { JOIN_SCRIPT, renderWords, wordsInVariables } from "./shim.ts";

describe("the root of a container", () => {
  const plan = planRoot({
    binds: [
      { source: "/data/pods/u/volumes/a b", target: "/deep/er", readOnly: true },
      { source: "/data/pods/u/volumes/x", target: "/deep", readOnly: false },
      { source: "/data/pods/u/volumes/f", target: "/deep/file", readOnly: true, isFile: true },
    ],
    system: ["/usr"],
    hidden: ["/data", "/tmp/state"],
  });

  it("mounts outer folders before inner ones, and files after all folders", () => {
    const targets = plan.mounts
      .trim()
      .split("\n")
      .map((line) => line.split(" ")[1]);
    expect(targets.indexOf("/deep")).toBeLessThan(targets.indexOf("/deep/er"));
    expect(targets).not.toContain("/deep/file");
    expect(plan.fileMounts).toContain(
      "/.fairlead-machine/data/pods/u/volumes/f /deep/file none bind,ro 0 0\n",
    );
  });

  it("hides people's files and the kubelet's own, and shows the machine's programs to read only", () => {
    for (const path of ["/root", "/home", "/tmp", "/run", "/data"])
      expect(plan.mounts).toContain(`tmpfs ${path} tmpfs `);
    expect(plan.mounts).not.toContain("/tmp/state");
    expect(plan.mounts).toContain("/.fairlead-machine/usr /usr none bind,ro,X-mount.mkdir 0 0\n");
  });

  it("escapes what fstab would read as something else", () => {
    expect(plan.mounts).toContain(
      String.raw`/.fairlead-machine/data/pods/u/volumes/a\040b /deep/er none bind,ro`,
    );
    const line = fc.string({ minLength: 1 }).map((name) =>
      planRoot({ binds: [{ source: `/${name}`, target: "/t", readOnly: true }], system: [], hidden: [] })
        .mounts.trimEnd()
        .split("\n")
        .at(-1),
    );
    fc.assert(
      fc.property(line, (text) => {
        expect(text?.split(/\s/)).toHaveLength(6);
      }),
    );
  });

  it("finds the system's folders that are mount points, outermost first", () => {
    const mountinfo = [
      "30 1 8:1 / / rw - ext4 /dev/sda1 rw",
      "33 30 8:3 / /usr/lib/modules rw shared:2 - squashfs /dev/loop0 ro",
      "32 30 8:2 / /usr rw shared:1 - ext4 /dev/sda2 rw",
      "34 30 0:5 / /proc rw - proc proc rw",
      "35 30 8:4 / /home rw - ext4 /dev/sda4 rw",
      "36 30 8:5 /resolv.conf /etc/resolv.conf rw - ext4 /dev/sda5 rw",
    ].join("\n");
    expect(systemMounts(mountinfo)).toEqual(["/usr", "/usr/lib/modules"]);
  });
});

const lists = fc.array(
  fc.string({
    unit: fc.constantFrom("a", " ", "\\", "\n", "n", "0", "%", "$", "'", '"', "c", "é", "с", "😀"),
  }),
  { minLength: 1, maxLength: 8 },
);

describe("words for the shim", () => {
  it("come out of its shell as they went in", async () => {
    const decode = String.raw`while IFS= read -r line; do case $line in *\\*) line=$(printf '%b.' "$line"); line=${"$"}{line%.} ;; esac; printf '%s\0' "$line"; done`;
    await fc.assert(
      fc.asyncProperty(lists, async (list) => {
        const { stdout } = await exec("/bin/sh", ["-c", decode], { input: renderWords(list) });
        expect(stdout.split("\0").slice(0, -1)).toEqual(list);
      }),
      { numRuns: 40 },
    );
  });

  it("that join a container do so too, however many they are, and leave no trace in the environment", async () => {
    const joined = async (words: readonly string[]): Promise<readonly string[]> => {
      const script = 'env | grep -c FAIRLEAD_WORDS; printf "%s\\0" "$@"';
      const { stdout } = await exec("/bin/sh", ["-c", JOIN_SCRIPT, "sh", "sh", "/usr/bin:/bin", "/"], {
        env: { PATH: "/usr/bin:/bin", ...wordsInVariables(["sh", "-c", script, "sh", ...words]) },
      });
      expect(stdout).toMatch(/^0\n/);
      return stdout.slice(2).split("\0").slice(0, -1);
    };
    const long = Array.from({ length: 8 }, (_, at) => "é'😀".repeat(3000 + at));
    for (const list of [...fc.sample(lists, 40), long]) expect(await joined(list)).toEqual(list);
  });
});
