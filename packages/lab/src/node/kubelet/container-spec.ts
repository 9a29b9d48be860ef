import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import type { ConfigMap, Container, Pod, Secret } from "@fairlead/kube/api/core/v1/types.ts";
import type { ImageProgram, MachineFile } from "#images/catalogue.ts";
import type { BindMount } from "../container/root.ts";
import type { ContainerSpec } from "../container/prepare.ts";
import type { PodPlace } from "../pod/downward.ts";
import { ConfigError, planEnvironment } from "../pod/environment.ts";
import { expandVariables } from "../pod/expand.ts";
import { volumeBinds } from "../pod/mounts.ts";
import { identityOf } from "../pod/identity.ts";
import { kernelHostname, renderHosts, renderResolvConf } from "../pod/resolver.ts";
import type { NodeContext } from "./context.ts";

export interface SpecInput {
  readonly pod: Pod;
  readonly container: Container;
  readonly attempt: number;
  readonly image: ImageProgram;
  readonly place: PodPlace;
  readonly netns: string | undefined;
  /** Folder of the pod's volumes. */
  readonly volumes: string;
  readonly configMap: (name: string) => ConfigMap | undefined;
  readonly secret: (name: string) => Secret | undefined;
}

/** All that a container is given. @throws {ConfigError} when something that the pod asks for is not there. */
export function containerSpec(input: SpecInput, context: NodeContext): ContainerSpec {
  const { pod, container, image, place } = input;
  const identity = identityOf(pod, container);
  const hostname =
    pod.spec?.hostNetwork === true ? context.machine.hostname : kernelHostname(pod, context.dns.domain);
  const env = planEnvironment({
    pod,
    container,
    place,
    sources: { configMap: input.configMap, secret: input.secret },
    image: image.env,
    services: context.servicesFor(pod),
    // As a runtime finds it in /etc/passwd, which knows root alone for sure.
    home: identity.uid === 0 ? "/root" : "/",
    capacity: context.capacity,
    hostname,
  });
  const volumes = pod.spec?.volumes ?? [];
  return {
    podUid: pod.metadata.uid ?? "",
    name: container.name,
    attempt: input.attempt,
    image: image.image,
    tty: container.tty === true,
    identity,
    user: { uid: identity.uid, gid: identity.gid, groups: [identity.gid, ...identity.groups] },
    stdinOnce: container.stdinOnce === true,
    terminationMessagePath: join("/", container.terminationMessagePath ?? "/dev/termination-log"),
    fallsBackToLogs: container.terminationMessagePolicy === "FallbackToLogsOnError",
    argv: argvOf(container, image, env),
    env,
    workingDir: workingDirOf(container),
    hostname,
    binds: [
      ...image.needs.map(programBind),
      ...volumeBinds(container, volumes, (name) => join(input.volumes, name), env),
    ],
    etc: {
      "resolv.conf": renderResolvConf(pod, context.dns),
      hosts: renderHosts(pod, place.podIPs, context.dns.domain),
      hostname: `${hostname}\n`,
    },
    netns: input.netns,
    stdin: container.stdin === true,
    scripts: image.scripts,
  };
}

/** `command` takes the place of the image's entrypoint and drops its arguments; `args` takes theirs. */
function argvOf(
  container: Container,
  image: ImageProgram,
  env: ReadonlyMap<string, string>,
): readonly string[] {
  const hasCommand = (container.command ?? []).length > 0;
  const command = hasCommand ? (container.command ?? []) : image.entrypoint;
  const hasArgs = (container.args ?? []).length > 0;
  const args = hasArgs ? (container.args ?? []) : hasCommand ? [] : image.cmd;
  const argv = [...command, ...args].map((it) => expandVariables(it, (name) => env.get(name)));
  if (argv.length === 0 || argv[0] === "") throw new ConfigError("no command specified");
  return argv;
}

function workingDirOf({ workingDir = "" }: Container): string {
  const folder = join("/", workingDir);
  if (folder.includes("\0")) throw new ConfigError("workingDir must be a path");
  return folder;
}

function programBind({ source, target }: MachineFile): BindMount {
  return { source, target, readOnly: true, isFile: existsSync(source) && statSync(source).isFile() };
}
