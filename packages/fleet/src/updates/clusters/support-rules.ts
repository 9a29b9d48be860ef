import {
  type HubSupport,
  isSupported,
  releasesOf,
  type Support,
  supportIn,
} from "#domain/kubernetes-support.ts";
import type { Releases, UpdateMember } from "./fleet.ts";
import type { VersionProblem } from "./version-rules.ts";

/** Whether our own programs and a version of Kubernetes work together: asked before a member is upgraded. */

/** One program that is asked, for messages. */
interface Asked {
  /** "fairlead member of a". */
  readonly what: string;
  readonly support: Support;
}

type Components = Releases["components"];

interface Programs {
  readonly hub: HubSupport | undefined;
  readonly components: Components;
  /** The version that the member is to have, of its profile or pinned. */
  readonly installed: string | undefined;
}

/**
 * Asks the hub, the programs of the member and its profile about a version of Kubernetes. Programs that do not report what they
 * support are not asked: they are those of others, or older than the question.
 *
 * @returns Undefined if all support it.
 */
export function checkPrograms(
  wanted: string,
  member: UpdateMember,
  { hub, components, installed }: Programs,
): VersionProblem | undefined {
  const { name, programs, profile } = member;
  const asked: Asked[] = [
    ...(hub === undefined ? [] : [{ what: "fairlead hub", support: hub }]),
    ...programs.map(({ program, ...support }) => ({ what: `fairlead ${program} of ${name}`, support })),
    ...[installed === undefined ? undefined : supportOf(installed, components, hub)].flatMap((support) =>
      support === undefined ? [] : [{ what: `fairlead node of profile ${profile?.name ?? ""}`, support }],
    ),
  ];
  const refusing = asked
    .map((it) => ({ ...it, support: declared(it.support, components) }))
    .find((it) => !isSupported(wanted, it.support.kubernetes));
  if (refusing === undefined) return undefined;
  return {
    is: "fail",
    code: "NotSupported",
    message: `${describe(refusing)}, not ${wanted}: upgrade it first`,
  };
}

export function describe({ what, support: { version, kubernetes } }: Asked): string {
  return `${what} has version ${version}, which supports Kubernetes ${kubernetes.from} to ${kubernetes.to}`;
}

/** What a catalog says of a version counts more than what its programs say. */
function declared(support: Support, components: Components): Support {
  return components.find((it) => it.version === support.version) ?? support;
}

/**
 * Of a version of `fairlead node` that may run nowhere yet: as a catalog has it, or as the hub knows its release; of a hub that does
 * not say, as it is known here.
 */
export function supportOf(
  version: string,
  components: Components,
  hub: HubSupport | undefined,
): Support | undefined {
  const declaredSupport = components.find((it) => it.version === version);
  return declaredSupport ?? supportIn(version, hub?.nodeReleases ?? releasesOf("node"));
}
