import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { findProgram } from "@fairlead/base/find-program.ts";
import { completionOf } from "./main.ts";

const has = (program: string): boolean => findProgram(program, process.env["PATH"] ?? "") !== undefined;

let folder = "";
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "completion-"));
  for (const shell of ["bash", "zsh", "fish"] as const)
    writeFileSync(join(folder, shell), await completionOf(shell));
  // Contexts with names that a shell would expand.
  const kubectl = "#!/bin/sh\nprintf '%s\\n' hub 'member one' '$(touch expanded)'\n";
  writeFileSync(join(folder, "kubectl"), kubectl, { mode: 0o755 });
  writeFileSync(join(folder, "some-file"), "");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a script of a shell in the folder, with a fake kubectl in the PATH, and returns its lines. */
async function lines(shell: string, script: string, ...args: readonly string[]): Promise<readonly string[]> {
  // A locale that the machine does not have is a warning of bash.
  const addEnv = { PATH: `${folder}:${process.env["PATH"] ?? ""}`, HOME: folder, LC_ALL: "C" };
  const flag = shell === "bash" ? ["--norc"] : [];
  const { stdout, stderr } = await exec(shell, [...flag, "-c", script, ...args], { cwd: folder, addEnv });
  expect(stderr).toBe("");
  return stdout.split("\n").filter((it) => it !== "");
}

/** What each shell offers for a command line whose last word is being typed. */
const SHELLS = {
  bash: (words: readonly string[]) => {
    const script = `compopt() { :; }; . ./bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fairlead; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return lines("bash", script, "bash", ...words);
  },
  fish: async (words: readonly string[]) => {
    const offered = await lines("fish", 'source ./fish; complete -C "$argv[1]"', words.join(" "));
    return offered.map((it) => it.split("\t")[0] ?? "");
  },
} as const;

describe.for(["bash", "fish"] as const)("the completion of %s", (shell) => {
  const offers = SHELLS[shell];

  it.runIf(has(shell)).for([
    { words: ["fairlead", "ver"], offered: ["verify", "version"] },
    { words: ["fairlead", "lab", "st"], offered: ["status"] },
    { words: ["fairlead", "lab", "up", "--mem"], offered: ["--members"] },
    { words: ["fairlead", "status", "-o", "js"], offered: ["json"] },
    { words: ["fairlead", "completion", "z"], offered: ["zsh"] },
    { words: ["fairlead", "crds", "print", "--role", "m"], offered: ["member"] },
    { words: ["fairlead", "status", "--kubeconfig", "some"], offered: ["some-file"] },
    { words: ["fairlead", "status", "--hub-context", "h"], offered: ["hub"] },
    { words: ["fairlead", "join", "--timeout", "l"], offered: [] },
    { words: ["fairlead", "lab-no"], offered: [] },
  ])("offers %o", async ({ words, offered }) => {
    expect(await offers(words)).toEqual(offered);
  });
});

it("the completion of bash does not expand names of contexts", async () => {
  const offered = await SHELLS.bash(["fairlead", "status", "--hub-context", ""]);
  expect(offered).toEqual(["hub", "member\\ one", "\\$\\(touch\\ expanded\\)"]);
  await expect(exec("test", ["-e", join(folder, "expanded")])).rejects.toThrow(/test/);
});

it("the completion of bash takes a value behind an equals sign", async () => {
  expect(await SHELLS.bash(["fairlead", "status", "--output", "=", "ya"])).toEqual(["yaml"]);
  expect(await SHELLS.bash(["fairlead", "status", "--output", "="])).toContain("wide");
});

it.runIf(has("zsh"))("the completion of zsh is read without an error", async () => {
  expect(await lines("zsh", "zsh -n ./zsh && compdef() { echo $@ } && source ./zsh")).toEqual([
    "_fairlead fairlead kubectl-fairlead",
  ]);
});
