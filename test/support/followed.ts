import { start } from "@fairlead/base/exec.ts";
import { checkout } from "./lab-fixture.ts";
import { until } from "./waiting.ts";

/** A command of Fairlead that runs until it is interrupted. */
export interface Followed {
  /** Waits until what it has printed since the last wait is as expected, and returns that. */
  untilPrinted(what: string, isEnough: (text: string) => boolean): Promise<string>;
  /** Returns its exit code. */
  interrupt(): Promise<number | null>;
}

export function follow(stateRoot: string, args: readonly string[]): Followed {
  const child = start(`${checkout}bin/fairlead`, args, {
    stdio: ["ignore", "pipe", "ignore"],
    env: { PATH: process.env["PATH"] ?? "", FAIRLEAD_STATE: stateRoot },
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once("close", (code) => resolve(code));
  });
  let seen = "";
  child.stdout?.on("data", (chunk: Buffer) => (seen += chunk.toString("utf8")));
  return {
    async untilPrinted(what, isEnough) {
      const text = await until(what, () => Promise.resolve(seen), isEnough);
      seen = seen.slice(text.length);
      return text;
    },
    async interrupt() {
      child.kill("SIGINT");
      return await ended;
    },
  };
}
