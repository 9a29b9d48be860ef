import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { createNetns, deleteNetns, inNetns } from "@fairlead/os/netns/netns.ts";

/** Why tests of the kernel cannot run here, or undefined when they can. */
const cannotUseKernel: string | undefined =
  process.platform !== "linux"
    ? "needs Linux"
    : process.getuid?.() === 0
      ? undefined
      : "needs root: makes network namespaces";

export interface NetnsFixture extends AsyncDisposable {
  /** File of a namespace of that name, made when first asked for. */
  netns(name: string): Promise<string>;
}

/** Network namespaces that go with the test. */
export function netnsFixture(): NetnsFixture {
  const folder = mkdtempSync(join(tmpdir(), "fairlead-netns-"));
  const made = new Map<string, string>();
  return {
    async netns(name) {
      const path = made.get(name) ?? join(folder, name);
      if (!made.has(name)) await createNetns(path, AbortSignal.timeout(10_000));
      made.set(name, path);
      return path;
    },
    async [Symbol.asyncDispose]() {
      for (const path of made.values()) await deleteNetns(path, AbortSignal.timeout(10_000));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** What to put before a command so that it runs in the namespace. */
export function prefixOf(netns: string): readonly string[] {
  const { command, args } = inNetns(netns, "x");
  return [command, ...args.slice(0, -1)];
}

/** Names of the devices that a program sees in the namespace. */
export async function devicesIn(netns: string): Promise<readonly string[]> {
  const line = inNetns(netns, "ip", ["-j", "link", "show"]);
  const { stdout } = await exec(line.command, line.args, { signal: AbortSignal.timeout(10_000) });
  return (JSON.parse(stdout) as readonly { readonly ifname: string }[]).map((it) => it.ifname);
}

/** A group of tests that is skipped, with the reason in its name, where the kernel cannot be used. */
export function describeOnKernel(name: string, body: () => void): void {
  const isSkipped = cannotUseKernel !== undefined;
  describe.skipIf(isSkipped)(isSkipped ? `${name} (skipped: ${cannotUseKernel})` : name, () => {
    body();
  });
}
