/** Keeps what failed in runs of tests, so that it can be told once more at the end: of a long log that may be all one sees. */
import { appendFileSync } from "node:fs";
import type { Reporter, TestModule } from "vitest/node";

/** Names the file that failures are added to, a line each. Without it nobody wants to know. */
export const FAILURES_FILE = "FAIRLEAD_TEST_FAILURES";

/** Enough for a name and what was expected. Unit: characters. */
const LINE_LENGTH = 400;

export class FailureReporter implements Reporter {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly { readonly message: string }[]): void {
    const lines = [
      ...modules.flatMap(failuresOf),
      ...unhandled.map((it) => `outside of a test: ${it.message}`),
    ];
    appendFileSync(
      this.#file,
      lines.map((it) => `${it.replaceAll(/\s+/g, " ").slice(0, LINE_LENGTH)}\n`).join(""),
    );
  }
}

function failuresOf(module: TestModule): string[] {
  const { children, relativeModuleId } = module;
  const told = (name: string, errors: readonly { readonly message: string }[] = []): string =>
    `${[relativeModuleId, name].filter((it) => it !== "").join(" > ")}: ${errors[0]?.message ?? "failed"}`;
  // A hook that fails does so for its group, whose tests are then skipped.
  const broken = [...children.allSuites()].filter((it) => it.errors().length > 0);
  return [
    ...(module.errors().length > 0 ? [told("", module.errors())] : []),
    ...broken.map((it) => told(it.fullName, it.errors())),
    ...[...children.allTests("failed")].map((it) => told(it.fullName, it.result().errors)),
  ];
}
