import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { accessManifests, actAsMembersManifests } from "@fairlead/fleet/authz/manifests.ts";
import { appliesAs, EVERYTHING } from "@fairlead/fleet/authz/applied.ts";
import { HUB_ACCESS, MEMBER_WORK_ACCESS, type ProgramAccess } from "@fairlead/fleet/authz/programs.ts";
import { isMemberUserLike } from "@fairlead/fleet/api/fairlead.dev/identity.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import type { AuditOptions } from "@fairlead/apiserver/audit/log.ts";
import type { AuthenticationOptions } from "@fairlead/apiserver/auth/options.ts";
import { fixedCredentials, type ClusterConfig } from "@fairlead/kube/config/config.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/**
 * Programs of the tests have only the permissions of the generated roles; their requests are written
 * down. A test in which one was refused fails when its fleet is taken down.
 */

/** This user agent distinguishes programs from tests that use the same identity. */
export const PROGRAM_AGENT = "fairlead-program";

/** One request that was authorized or refused. */
export interface AskedFor {
  readonly user: string;
  readonly verb: string;
  readonly group: string;
  /** With the subresource: "pods/status". */
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly isAllowed: boolean;
}

/** At the end of a test, by what its hub has. */
export interface Standing {
  readonly namespaces: ReadonlySet<string>;
  readonly identities: ReadonlySet<string>;
}

/** A member whose mailbox is deleted or whose identity was replaced has no permissions any more, and may still send requests. */
function isOfMember({ namespace, user }: AskedFor, { namespaces, identities }: Standing): boolean {
  return (
    (namespace === undefined || namespaces.has(namespace)) &&
    (!isMemberUserLike(user) || identities.has(user))
  );
}

export class AccessLog {
  readonly #byText = new Map<string, AskedFor>();
  readonly #count = { reads: 0, watches: 0, definitions: 0 };
  readonly #writes = new Map<string, number>();

  /** What a server is to be started with. */
  readonly audit: AuditOptions = { write: (line) => this.#read(line) };

  all(): readonly AskedFor[] {
    return [...this.#byText.values()];
  }

  /** How many requests read and watch, and how many write definitions. Others come of themselves: heartbeats, and what follows. */
  counts(): { readonly reads: number; readonly watches: number; readonly definitions: number } {
    return { ...this.#count };
  }

  /** How many requests were sent to write objects of a kind, those that were refused or changed nothing included. */
  writes(resource: string): number {
    return this.#writes.get(resource) ?? 0;
  }

  /**
   * Rejections of requests that were never allowed later: right after joining, a member may send requests before its permissions exist.
   *
   * @param standing - On a hub: who is a member. What others are refused is what revoking and leaving are for.
   */
  refused(standing?: Standing): readonly AskedFor[] {
    return this.all().filter(
      (it) =>
        !it.isAllowed &&
        !isAttempt(it) &&
        !this.#byText.has(JSON.stringify({ ...it, isAllowed: true })) &&
        (standing === undefined || isOfMember(it, standing)),
    );
  }

  /** For a test that removed a permission: its rejections are not counted. */
  forgetRefused(resource: string): void {
    for (const [text, it] of this.#byText)
      if (!it.isAllowed && it.resource === resource) this.#byText.delete(text);
  }

  #read(line: string): void {
    const event = JSON.parse(line) as AuditEvent;
    if (event.stage === "RequestReceived" || event.objectRef === undefined) return;
    if (event.userAgent !== PROGRAM_AGENT) return;
    this.#note(event, event.objectRef, event.verb);
    this.#add(event, event.objectRef.resource);
    // Server-side apply that makes an object is a creation too, of a known name.
    if (event.verb === "patch" && event.responseStatus?.code === 201)
      this.#note(event, event.objectRef, "create");
  }

  #add({ stage, verb }: AuditEvent, resource: string): void {
    // A watch has an event at its end as well.
    if (verb === "watch") this.#count.watches += stage === "ResponseStarted" ? 1 : 0;
    else if (verb === "get" || verb === "list") this.#count.reads += 1;
    else {
      this.#writes.set(resource, this.writes(resource) + 1);
      if (INSTALLED_BY_OTHERS.has(resource)) this.#count.definitions += 1;
    }
  }

  #note(event: AuditEvent, ref: NonNullable<AuditEvent["objectRef"]>, verb: string): void {
    const selected = /[?&]fieldSelector=metadata\.name(?:=|%3D)([^&]*)/.exec(event.requestURI)?.[1];
    const asked: AskedFor = {
      user: event.user?.username ?? "",
      verb,
      group: ref.apiGroup ?? "",
      resource: ref.subresource === undefined ? ref.resource : `${ref.resource}/${ref.subresource}`,
      namespace: ref.namespace,
      name: ref.name ?? selected ?? "",
      isAllowed: event.responseStatus?.code !== 403,
    };
    this.#byText.set(JSON.stringify(asked), asked);
  }
}

const INSTALLED_BY_OTHERS = new Set([
  "customresourcedefinitions",
  "validatingadmissionpolicies",
  "validatingadmissionpolicybindings",
]);

/** Definitions and policies are installed where that is allowed. */
function isAttempt({ verb, resource }: AskedFor): boolean {
  return INSTALLED_BY_OTHERS.has(resource) && verb === "patch";
}

interface AuditEvent {
  readonly stage: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly userAgent?: string;
  readonly user?: { readonly username?: string };
  readonly objectRef?: {
    readonly resource: string;
    readonly subresource?: string;
    readonly apiGroup?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
}

export function userOf(program: ProgramAccess): string {
  return `test:${program.of ?? program.name}`;
}

/** Lets each program in by a token that is its name. */
export function tokensOf(
  programs: readonly ProgramAccess[],
): Required<Pick<AuthenticationOptions, "staticTokens">> {
  return {
    staticTokens: new Map(
      programs.map((it) => [it.name, { name: userOf(it), groups: ["system:serviceaccounts"] }] as const),
    ),
  };
}

export function configAs(program: ProgramAccess, config: ClusterConfig): ClusterConfig {
  return { ...config, credentials: fixedCredentials({ token: program.name }) };
}

/** Installs the namespace and the roles of the programs. */
export async function grant(client: KubeClient, programs: readonly ProgramAccess[]): Promise<void> {
  const system = objectKey(undefined, FLEET_SYSTEM_NAMESPACE);
  if ((await client.find(NAMESPACES, system)) === undefined)
    await client.create(NAMESPACES, { metadata: { name: FLEET_SYSTEM_NAMESPACE } });
  for (const program of programs)
    for (const { of, object } of accessManifests(program, {
      kind: "User",
      apiGroup: "rbac.authorization.k8s.io",
      name: userOf(program),
    }))
      await client.apply(of, object, { fieldManager: "test" });
  if (programs.includes(MEMBER_WORK_ACCESS)) {
    const name = userOf(MEMBER_WORK_ACCESS);
    const applies = appliesAs(EVERYTHING, { kind: "User", apiGroup: "rbac.authorization.k8s.io", name });
    await client.apply(applies.of, applies.object, { fieldManager: "test" });
  }
  if (!programs.includes(HUB_ACCESS)) return;
  const hub = { kind: "User", apiGroup: "rbac.authorization.k8s.io", name: userOf(HUB_ACCESS) } as const;
  for (const { of, object } of actAsMembersManifests(hub))
    await client.apply(of, object, { fieldManager: "test" });
}
