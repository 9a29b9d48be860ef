/** A hub that gets another authority, step by step as kubeadm and the Kubernetes documentation have it. */

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { CONFIG_MAPS, NAMESPACES, type Secret, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_ACCESS, MEMBER_ACCESS, PROGRAMS } from "@fairlead/fleet/authz/programs.ts";
import { HUB_SECRET, ROOT_CA_CONFIG_MAP } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { INTERNAL_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { type ApiServer, startApiServer } from "@fairlead/apiserver/server.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { runAgent } from "@fairlead/fleet/member/agent/agent.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { isSameBundle, isSignedByOneOf } from "@fairlead/base/pki/bundle.ts";
import { issueAuthority } from "@fairlead/base/pki/issue.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { configAs, grant, tokensOf } from "../support/access.ts";
import {
  aborted,
  connectProgram,
  deploy,
  exportBy,
  PATIENCE_MS,
  Restartable,
  startCluster,
  testDeps,
  type TestCluster,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** A hub whose keys are replaced, which takes a new start of its server. */
class Hub implements AsyncDisposable {
  readonly #dataDir: string;
  readonly #program: Restartable;
  #server: ApiServer | undefined;

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#program = new Restartable(async (signal) => {
      const config = configAs(HUB_ACCESS, await this.config());
      await using client = connectProgram(config, testDeps("hub"));
      await using _running = await startHub(client, {}, testDeps("hub"), signal);
      await aborted(signal);
    });
  }

  /** @param known - Authorities of clients' certificates. The first signs them, and the server's own. */
  async start(...known: readonly [CertificatePair, ...CertificatePair[]]): Promise<void> {
    await this.stop();
    const pki = join(this.#dataDir, "pki");
    await mkdir(pki, { recursive: true });
    await writeFile(join(pki, "ca.crt"), known.map((it) => it.cert).join(""));
    await writeFile(join(pki, "ca.key"), known[0].key);
    const port = this.#server?.port ?? 0;
    const authentication = tokensOf(PROGRAMS);
    this.#server = await startApiServer({ dataDir: this.#dataDir, port, authentication });
    await using admin = await this.admin();
    await grant(admin, [HUB_ACCESS]);
    this.#program.start();
  }

  /** As its administrator has it now. */
  config(): Promise<ClusterConfig> {
    return loadKubeconfig(this.#server?.kubeconfig ?? "");
  }

  async admin(): Promise<KubeClient> {
    return connect(await this.config(), testDeps("admin"));
  }

  /** As the controller manager does in every namespace, from its `--root-ca-file`. */
  async publish(...authorities: readonly CertificatePair[]): Promise<void> {
    await using client = await this.admin();
    const data = { "ca.crt": bundleOf(authorities) };
    for (const namespace of ["kube-system", MAILBOX])
      if ((await client.find(NAMESPACES, objectKey(undefined, namespace))) !== undefined)
        await client.apply(
          CONFIG_MAPS,
          { metadata: { namespace, name: ROOT_CA_CONFIG_MAP }, data },
          { fieldManager: "root-ca-cert-publisher" },
        );
  }

  async stop(): Promise<void> {
    await this.#program.stop();
    await this.#server?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

const MAILBOX = "fleet-member-a";
const bundleOf = (authorities: readonly CertificatePair[]): string =>
  authorities.map((it) => it.cert).join("");

let authorities: readonly CertificatePair[];
let hub: Hub;
let member: TestCluster;
let agent: Restartable;
const stack = new AsyncDisposableStack();
beforeAll(async () => {
  authorities = await Promise.all([1, 2, 3].map(() => issueAuthority({ commonName: "kubernetes" })));
  const dataDir = await mkdtemp(join(tmpdir(), "fairlead-authority-"));
  stack.defer(() => rm(dataDir, { recursive: true, force: true }));
  hub = stack.use(new Hub(dataDir));
  await hub.start(authority(1));
  await hub.publish(authority(1));
  member = stack.use(await startCluster("a", [MEMBER_ACCESS]));
  agent = stack.use(
    new Restartable(async (signal) => {
      const deps = testDeps("a");
      await using local = connectProgram(configAs(MEMBER_ACCESS, member.config), deps);
      await runAgent({ local, connectHub: (config) => connectProgram(config, deps), deps }, signal);
    }),
  );
  agent.start();
  await joinMember();
});
afterAll(() => stack.disposeAsync());

function authority(number: number): CertificatePair {
  const found = authorities[number - 1];
  if (found === undefined) throw new Error(`no authority ${number}`);
  return found;
}

async function joinMember(): Promise<void> {
  const options = { name: "a", hub: await hub.config(), member: member.config, heartbeatSeconds: 1 };
  await joinCluster(
    { ...options, timeoutMs: PATIENCE_MS },
    testDeps("join"),
    AbortSignal.timeout(PATIENCE_MS),
  );
}

const fieldOf = ({ data }: Secret, name: string): string =>
  Buffer.from(data?.[name] ?? "", "base64").toString("utf8");

/** Once the member knows the hub by these, and has a certificate of the last of them that signs. */
async function untilKnown(
  known: readonly CertificatePair[],
  more: { readonly signedBy: CertificatePair; readonly isNot?: string },
): Promise<string> {
  const secret = await eventuallyOne(
    member.client,
    SECRETS,
    objectKey("fleet-system", HUB_SECRET),
    (it) =>
      isSameBundle(fieldOf(it, "ca.crt"), bundleOf(known)) &&
      isSignedByOneOf(more.signedBy.cert, fieldOf(it, "tls.crt")) &&
      fieldOf(it, "tls.crt") !== more.isNot,
  );
  return fieldOf(secret, "tls.crt");
}

/** The hub hears of something new in the member. */
async function expectTalking(what: string): Promise<void> {
  await deploy(member.client, { name: what, addresses: ["10.1.0.1"] });
  await exportBy("mcs", member.client, { name: what });
  await using admin = await hub.admin();
  await eventually(
    admin,
    INTERNAL_SERVICE_EXPORTS,
    (all) => all.some((it) => it.spec?.serviceReference.name === what),
    { namespace: MAILBOX },
  );
}

describe("a hub whose certificate authority is replaced", () => {
  it("is followed: first both authorities, then the new one alone, with a certificate that the new one signed", async () => {
    await expectTalking("before");
    const first = await untilKnown([authority(1)], { signedBy: authority(1) });
    await hub.publish(authority(1), authority(2));
    await untilKnown([authority(1), authority(2)], { signedBy: authority(1), isNot: first });
    await hub.start(authority(2), authority(1));
    await expectTalking("between");
    await hub.publish(authority(2));
    await untilKnown([authority(2)], { signedBy: authority(2) });
    await hub.start(authority(2));
    await expectTalking("after");
  });

  it("is rejected if the new list has no certificate in common with the old one", async () => {
    await hub.publish(authority(3));
    // What is heard after that word was heard after it.
    await expectTalking("later");
    await untilKnown([authority(2)], { signedBy: authority(2) });
    await hub.publish(authority(2));
  });

  it("while the member was down requires another join, which also issues a certificate", async () => {
    await agent.stop();
    await hub.start(authority(3));
    await hub.publish(authority(3));
    agent.start();
    await joinMember();
    await untilKnown([authority(3)], { signedBy: authority(3) });
    await expectTalking("again");
  });
});
