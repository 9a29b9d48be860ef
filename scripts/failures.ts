/** Keeps failures of test runs, so that they are printed again at the end, which may be all that is shown of a long log. */
import { appendFileSync } from "node:fs";
import type { Reporter, TestModule } from "vitest/node";

/** Names the file to which failures are appended, one line each. Without it they are not kept. */
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
  const reported = (name: string, errors: readonly { readonly message: string }[] = []): string =>
    `${[relativeModuleId, name].filter((it) => it !== "").join(" > ")}: ${errors[0]?.message ?? "failed"}`;
  // A hook that fails does so for its group, whose tests are then skipped.
  const broken = [...children.allSuites()].filter((it) => it.errors().length > 0);
  return [
    ...(module.errors().length > 0 ? [reported("", module.errors())] : []),
    ...broken.map((it) => reported(it.fullName, it.errors())),
    ...[...children.allTests("failed")].map((it) => reported(it.fullName, it.result().errors)),
  ];
}
