import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { createExecNft } from "@fairlead/os/nft/exec.ts";
import { describeNftDriver } from "@fairlead/os/nft/contract.ts";
import { parseTable } from "@fairlead/os/nft/parse.ts";
import { describeOnKernel, netnsFixture, prefixOf } from "../support/netns-fixture.ts";

describeOnKernel("on the kernel", () => {
  const fixture = netnsFixture();
  afterAll(() => fixture[Symbol.asyncDispose]());
  describeNftDriver(
    "nftables by the nft program",
    async () => createExecNft({ prefix: prefixOf(await fixture.netns("exec")) }),
    { runs: 15 },
  );

  it("nft accepts the scripts of the goldens, and lists what was recorded", async () => {
    const [command, ...prefix] = prefixOf(await fixture.netns("goldens"));
    if (command === undefined) throw new Error("no namespace");
    const nft = async (...args: readonly string[]): Promise<string> =>
      (await exec(command, [...prefix, "nft", ...args], { signal: AbortSignal.timeout(60_000) })).stdout;
    const golden = (path: string): string =>
      fileURLToPath(new URL(`../../packages/${path}`, import.meta.url));
    await nft("--file", golden("fleet/src/dataplane/service-proxy/goldens/table.nft"));
    const folder = "os/src/nft/goldens";
    await nft("--file", golden(`${folder}/created.nft`));
    const listed = await nft("--json", "--numeric-protocol", "list", "table", "inet", "example");
    expect(parseTable(listed)).toEqual(parseTable(readFileSync(golden(`${folder}/created.json`), "utf8")));
    for (const name of ["other-endpoint", "other-rule", "deleted"])
      await nft("--file", golden(`${folder}/${name}.nft`));
  });
});
