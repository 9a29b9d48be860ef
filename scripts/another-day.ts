/**
 * The unit and integration tests on the next 29 February, in a time zone that has reached 1 March, in another language, next to two busy loops:
 * no test may depend on the day, the time zone, the locale, the order of files or a machine that is idle.
 *
 *   node scripts/another-day.ts [FILE...]
 */
import { spawn } from "node:child_process";
import { once } from "node:events";

/** Longest life of a busy loop that is not stopped. Unit: seconds. */
const LOOP_SECONDS = 3600;

const ENVIRONMENT: Readonly<Record<string, string>> = {
  TZ: "Pacific/Kiritimati",
  LC_ALL: "tr_TR.UTF-8",
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
  TEST_ORDER: "random",
  TEST_CHANCE: "new",
};

/**
 * libfaketime changes the time that libc returns. Go programs ask the kernel, so they reject certificates made on another day;
 * programs of BIND hang under it.
 */
const FILES_BY_OTHER_CLOCKS: Readonly<Record<string, string>> = {
  "packages/apiserver/test/kubectl.test.ts": "kubectl checks the server's certificate",
  "packages/apiserver/test/go-clients.test.ts": "so do programs with client-go",
  "test/chart/install.test.ts": "so does Helm",
  "test/chart/install-page.test.ts": "so do both",
  "test/chart/join.test.ts": "so does Helm",
  "test/compat/fleetboard.test.ts": "so does kubectl",
  "test/fleet/update-columns.test.ts": "so does kubectl",
  "test/traffic/rfc2136.test.ts": "BIND checks the time in signatures, by the kernel's clock",
};
/** Tests in other files, by the beginning of their names. */
const TESTS_BY_OTHER_CLOCKS: Readonly<Record<string, string>> = {
  "is approved and denied by kubectl": "kubectl checks the server's certificate",
  "is described by kubectl": "so it does",
  "is understood by dig": "dig hangs",
  "of two epochs are there until the new one": "the kernel's clock says when a file was written",
  "runs fairlead": "libfaketime finds no /dev/shm in the image",
  "installs the kinds of a member in a cluster, and runs": "the same",
};

const offsetSeconds = Math.round((nextLeapDay(Date.now()) - Date.now()) / 1000);
const pattern = `^(?!.*(${Object.keys(TESTS_BY_OTHER_CLOCKS).join("|")}))`;
const faketime = ["--exclude-monotonic", "-f", `+${offsetSeconds}`];
const vitest = ["vitest", "run", "--project", "unit", "--project", "integration", "-t", pattern];
const command = [...faketime, ...vitest, ...process.argv.slice(2)];

const loops = Array.from({ length: 2 }, () =>
  spawn("timeout", [String(LOOP_SECONDS), "sh", "-c", "while :; do :; done"], { stdio: "ignore" }),
);
try {
  const TEST_EXCLUDE = Object.keys(FILES_BY_OTHER_CLOCKS).join(" ");
  const env = { ...process.env, ...ENVIRONMENT, TEST_EXCLUDE };
  const run = spawn("faketime", command, { stdio: "inherit", env });
  await once(run, "exit");
  if (run.exitCode !== 0) process.exitCode = 1;
} finally {
  for (const it of loops) it.kill();
}

/** Noon of the next 29 February, in UTC. @param nowMs - Both in milliseconds since the Unix epoch. */
function nextLeapDay(nowMs: number): number {
  for (let year = new Date(nowMs).getUTCFullYear(); ; year++) {
    const noonMs = Date.UTC(year, 1, 29, 12);
    if (new Date(noonMs).getUTCMonth() === 1 && noonMs > nowMs) return noonMs;
  }
}
