import { type ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { start } from "@fairlead/base/exec.ts";
import { TestClient } from "./support.ts";

const MAIN = join(import.meta.dirname, "..", "..", "fairlead", "src", "main.ts");

/** `fairlead apiserver` in a process of its own, which may be killed. */
export interface Program {
  readonly child: ChildProcess;
  readonly client: TestClient;
  readonly port: number;
  /** Ends with the process. Value: its exit code, or undefined when a signal ended it. */
  readonly ended: Promise<number | undefined>;
}

/** Starts the program on `dir` and waits until it says that it serves. */
export async function launchProgram(
  dir: string,
  wantedPort = 0,
  further: readonly string[] = [],
): Promise<Program> {
  const usual = ["--data", dir, "--port", String(wantedPort), "--ready-fd", "3", "--log-level", "silent"];
  const flags = [...usual, ...further];
  const child = start(process.execPath, [MAIN, "apiserver", ...flags], {
    stdio: ["ignore", "ignore", "inherit", "pipe"],
  });
  const ended = new Promise<number | undefined>((resolve) => {
    child.once("exit", (code) => resolve(code ?? undefined));
  });
  await new Promise<void>((resolve, reject) => {
    child.stdio[3]?.once("data", () => resolve());
    child.once("exit", (code) => reject(new Error(`the server ended with code ${code}`)));
  });
  const kubeconfig = await readFile(join(dir, "admin.kubeconfig"), "utf8");
  const port = Number(/"server": "https:\/\/127\.0\.0\.1:(\d+)/.exec(kubeconfig)?.[1]);
  const pem = (file: string): Promise<string> => readFile(join(dir, "pki", file), "utf8");
  const admin = { cert: await pem("admin.crt"), key: await pem("admin.key") };
  return { child, ended, port, client: new TestClient({ port, ca: await pem("ca.crt"), admin }) };
}
