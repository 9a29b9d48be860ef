import type {
  ConfigMap,
  Container,
  EnvFromSource,
  EnvVar,
  Pod,
  Secret,
  Service,
  ServicePort,
} from "@fairlead/kube/api/core/v1/types.ts";
import { type PodPlace, readField, readResource } from "./downward.ts";
import { expandVariables } from "./expand.ts";

/** The environment of a container. Pure. */

/** ConfigMaps and Secrets of the pod's namespace, by name. */
export interface ConfigSources {
  configMap(name: string): ConfigMap | undefined;
  secret(name: string): Secret | undefined;
}

export interface EnvironmentInput {
  readonly pod: Pod;
  readonly container: Container;
  readonly place: PodPlace;
  readonly sources: ConfigSources;
  /** What the image itself sets. */
  readonly image: Readonly<Record<string, string>>;
  /** Services that the pod finds in its environment: those of its namespace, and the Service of the API server. */
  readonly services: Iterable<Service>;
  /** The node's. */
  readonly capacity: Readonly<Record<string, string>>;
  readonly hostname: string;
  readonly home: string;
}

/** Something that the pod asks for and that is not there: it may come, so the container waits. */
export class ConfigError extends Error {
  static {
    Object.defineProperty(this.prototype, "name", {
      value: "ConfigError",
      enumerable: false,
      writable: true,
    });
  }
}

/** Something that nodes of the lab do not have. */
export class UnsupportedError extends ConfigError {}

const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/**
 * All variables, later ones overriding: those of a runtime, the image's, the API server's, `envFrom`, `env`.
 *
 * @throws {ConfigError} when a source that is not optional is absent.
 */
export function planEnvironment(input: EnvironmentInput): Map<string, string> {
  const { container, hostname, image } = input;
  const env = new Map<string, string>([
    ["PATH", DEFAULT_PATH],
    ["HOSTNAME", hostname],
    ["HOME", input.home],
    ...(container.tty === true ? [["TERM", "xterm"] as const] : []),
    ...Object.entries(image),
    ...[...input.services].flatMap(serviceVariables),
  ]);
  for (const from of container.envFrom ?? []) {
    for (const [key, value] of fromSource(from, input.sources)) {
      const name = `${from.prefix ?? ""}${key}`;
      // Keys that cannot be names of variables are left out, as upstream does it.
      if (/^[ -<>-~]+$/.test(name)) env.set(name, value);
    }
  }
  for (const variable of container.env ?? []) {
    const value = valueOf(variable, input, env);
    if (value !== undefined) env.set(variable.name, value);
  }
  return env;
}

/** The variables of one Service, as upstream's envvars.FromServices. */
export function serviceVariables(service: Service): readonly (readonly [string, string])[] {
  const host = service.spec?.clusterIP;
  const ports = service.spec?.ports ?? [];
  const [first] = ports;
  if (host === undefined || host === "" || host === "None" || first === undefined) return [];
  const prefix = variableName(service.metadata.name);
  const named = ports.filter((it) => it.name !== undefined && it.name !== "");
  return [
    [`${prefix}_SERVICE_HOST`, host],
    [`${prefix}_SERVICE_PORT`, String(first.port)],
    ...named.map((it) => [`${prefix}_SERVICE_PORT_${variableName(it.name ?? "")}`, String(it.port)] as const),
    [`${prefix}_PORT`, portUrl(host, first)],
    ...ports.flatMap((it) => portVariables(`${prefix}_PORT_${it.port}_${it.protocol ?? "TCP"}`, host, it)),
  ];
}

function portVariables(
  name: string,
  host: string,
  port: ServicePort,
): readonly (readonly [string, string])[] {
  return [
    [name, portUrl(host, port)],
    [`${name}_PROTO`, (port.protocol ?? "TCP").toLowerCase()],
    [`${name}_PORT`, String(port.port)],
    [`${name}_ADDR`, host],
  ];
}

function portUrl(host: string, { protocol, port }: ServicePort): string {
  return `${(protocol ?? "TCP").toLowerCase()}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function variableName(text: string): string {
  return text.toUpperCase().replaceAll("-", "_");
}

function fromSource(
  { configMapRef, secretRef }: EnvFromSource,
  sources: ConfigSources,
): readonly (readonly [string, string])[] {
  if (configMapRef !== undefined) {
    const found = sources.configMap(configMapRef.name ?? "");
    return Object.entries(present("configmap", configMapRef, found).data ?? {});
  }
  if (secretRef === undefined) return [];
  const { data = {} } = present("secret", secretRef, sources.secret(secretRef.name ?? ""));
  return Object.entries(data).map(([key, value]) => [key, decode(value)] as const);
}

type Data = { readonly data?: Readonly<Record<string, string>> };

function present(
  kind: string,
  ref: { readonly name?: string; readonly optional?: boolean },
  found: Data | undefined,
): Data {
  if (found !== undefined) return found;
  if (ref.optional === true) return {};
  throw new ConfigError(`${kind} "${ref.name ?? ""}" not found`);
}

function valueOf(
  variable: EnvVar,
  input: EnvironmentInput,
  env: ReadonlyMap<string, string>,
): string | undefined {
  const { valueFrom } = variable;
  if (valueFrom === undefined) return expandVariables(variable.value ?? "", (name) => env.get(name));
  const { fieldRef, resourceFieldRef, fileKeyRef } = valueFrom;
  if (fileKeyRef !== undefined) throw new UnsupportedError("nodes of the lab read no variables from files");
  if (fieldRef !== undefined)
    return known(readField(fieldRef.fieldPath, input.pod, input.place), `field ${fieldRef.fieldPath}`);
  if (resourceFieldRef === undefined) return fromKey(valueFrom, input);
  const { resource } = resourceFieldRef;
  return known(readResource(resourceFieldRef, input.container, input.capacity), `resource ${resource}`);
}

function fromKey(
  { configMapKeyRef, secretKeyRef }: NonNullable<EnvVar["valueFrom"]>,
  { pod, sources }: EnvironmentInput,
): string | undefined {
  const namespace = pod.metadata.namespace ?? "";
  if (configMapKeyRef !== undefined)
    return keyOf("ConfigMap", { ...configMapKeyRef, namespace }, (name) => sources.configMap(name)?.data);
  if (secretKeyRef === undefined) return "";
  const text = keyOf("Secret", { ...secretKeyRef, namespace }, (name) => sources.secret(name)?.data);
  return text === undefined ? undefined : decode(text);
}

function keyOf(
  kind: "ConfigMap" | "Secret",
  ref: {
    readonly namespace: string;
    readonly name?: string;
    readonly key: string;
    readonly optional?: boolean;
  },
  dataOf: (name: string) => Readonly<Record<string, string>> | undefined,
): string | undefined {
  const { namespace, name = "", key, optional } = ref;
  const data = dataOf(name);
  const value = data !== undefined && Object.hasOwn(data, key) ? data[key] : undefined;
  if (value !== undefined || optional === true) return value;
  if (data === undefined) throw new ConfigError(`${kind.toLowerCase()} "${name}" not found`);
  throw new ConfigError(`couldn't find key ${key} in ${kind} ${namespace}/${name}`);
}

function known(value: string | undefined, what: string): string {
  if (value === undefined) throw new ConfigError(`a pod has no ${what}`);
  return value;
}

function decode(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8");
}
