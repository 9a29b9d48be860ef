import { checkDns } from "@fairlead/fleet/cli/dns-setup/check.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";

interface CheckFlags {
  readonly zone: string;
  readonly server?: string | undefined;
  readonly also?: readonly string[] | undefined;
  readonly gone?: true | undefined;
  readonly name?: string | undefined;
  readonly timeout: string;
}

export async function check({ zone, server, also = [], gone, name, timeout }: CheckFlags): Promise<void> {
  await runForPeople("dns check", async ({ deps, signal }) => {
    const timeoutMs = parseWhole("--timeout", timeout, { min: 0, max: 600 }) * 1000;
    const asked = { zone, servers: [server, ...also], isGone: gone === true, name, timeoutMs };
    const version = await checkDns(asked, deps, signal);
    sayStep(
      gone === true ? `no server answers for ${zone}` : `names of ${zone} resolve (version ${version})`,
    );
  });
}
