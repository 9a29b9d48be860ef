import { checkDns } from "#cli/dns-setup/check.ts";
import { parseWhole } from "../numbers.ts";
import { runForPeople, sayStep } from "../people.ts";

interface CheckFlags {
  readonly zone: string;
  readonly server?: string | undefined;
  readonly name?: string | undefined;
  readonly timeout: string;
}

export async function check({ zone, server, name, timeout }: CheckFlags): Promise<void> {
  await runForPeople("dns check", async ({ deps, signal }) => {
    const timeoutMs = parseWhole("--timeout", timeout, { min: 0, max: 600 }) * 1000;
    const version = await checkDns({ zone, server, name, timeoutMs }, deps, signal);
    sayStep(`${zone} is answered (version ${version})`);
  });
}
