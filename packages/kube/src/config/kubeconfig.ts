import { defined } from "@fairlead/base/defined.ts";
import { readFile } from "node:fs/promises";
import { withoutTrailing } from "@fairlead/base/text.ts";
import { dirname, resolve } from "node:path";
import { type Clock, systemClock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { fileProblem } from "@fairlead/base/file-problem.ts";
import { isObject } from "@fairlead/base/json.ts";
import { type Logger, silentLogger } from "@fairlead/base/log.ts";
import { type ClusterConfig, type Credentials, fixedCredentials } from "./config.ts";
import { execCredentials, type ExecPlugin } from "./exec-credential.ts";
import { type FileSource, fileSource } from "./file-source.ts";

export interface KubeconfigOptions {
  /** Default: the file's current-context. */
  readonly context?: string;
  readonly clock?: Clock;
  /** Receives what is allowed but unwise. */
  readonly log?: Logger;
}

/**
 * Reads one context of a kubeconfig file. Paths in it are relative to it.
 *
 * @throws {FleetError} `KUBECONFIG_INVALID`, naming the field.
 */
export async function loadKubeconfig(path: string, options: KubeconfigOptions = {}): Promise<ClusterConfig> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw unreadable(path, cause);
  }
  const origin = originOf(path);
  return parseKubeconfig([new Fields(await parseText(origin, text), "", origin)], options);
}

/**
 * As `loadKubeconfig`, of a text that came from elsewhere: it must not name files of this machine, nor programs to run.
 *
 * @param name - Of the text, for errors.
 */
export async function readKubeconfig(
  name: string,
  text: string,
  options: KubeconfigOptions = {},
): Promise<ClusterConfig> {
  const origin = { name, folder: undefined };
  return parseKubeconfig([new Fields(await parseText(origin, text), "", origin)], options);
}

function unreadable(path: string, cause: unknown): FleetError {
  const message = `cannot read the kubeconfig ${path}: ${fileProblem(cause)}; pass another one, or set KUBECONFIG`;
  return new FleetError("KUBECONFIG_INVALID", message, { detail: { path } });
}

function originOf(path: string): Origin {
  return { name: path, folder: dirname(path) };
}

async function parseText({ name: path, folder }: Origin, text: string): Promise<unknown> {
  // JSON is YAML too, and needs no parser that takes 20 ms to load.
  const json = parseJson(text);
  if (json !== undefined) return json;
  const { MAX_OWN_YAML, MAX_YAML, readYaml, YamlError } = await import("#yaml/read.ts");
  try {
    return readYaml(text, folder === undefined ? MAX_YAML : MAX_OWN_YAML).value;
  } catch (cause) {
    if (!(cause instanceof YamlError)) throw cause;
    const why = cause.problem === "tooLong" ? `too long: ${cause.message}` : "not YAML";
    throw new FleetError("KUBECONFIG_INVALID", `the kubeconfig ${path} is ${why}`, {
      cause,
      detail: { path },
    });
  }
}

/** undefined for a text that is not JSON. */
function parseJson(text: string): unknown {
  if (!text.startsWith("{")) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Loads one context from several files as kubectl does: the earlier file wins, name by name, and paths are relative to
 * the file that contains them. Missing files are skipped; at least one must exist.
 *
 * @throws {FleetError} `KUBECONFIG_INVALID`, naming file and field.
 */
export async function loadKubeconfigs(
  paths: readonly string[],
  options: KubeconfigOptions = {},
): Promise<ClusterConfig> {
  const read = await Promise.all(paths.map((path) => readIfThere(path)));
  const files = read.flatMap((it) =>
    it === undefined ? [] : [new Fields(it.parsed ?? {}, "", originOf(it.path))],
  );
  if (files.length > 0) return parseKubeconfig(files, options);
  throw new FleetError("KUBECONFIG_INVALID", `no kubeconfig found: looked for ${paths.join(", ")}`, {
    detail: { paths },
  });
}

async function readIfThere(
  path: string,
): Promise<{ readonly path: string; readonly parsed: unknown } | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    if (isObject(cause) && cause["code"] === "ENOENT") return undefined;
    throw unreadable(path, cause);
  }
  return { path, parsed: await parseText(originOf(path), text) };
}

/** The most contexts that a message names. */
const MAX_CONTEXTS = 20;

/** @throws {FleetError} `OPTION_INVALID` with the contexts that there are. */
function refuseUnknown(files: readonly Fields[], context: string): void {
  const names = new Set(
    files.flatMap((it) => it.items("contexts").flatMap((item) => item.text("name") ?? [])),
  );
  if (names.has(context)) return;
  const paths = files.map((it) => it.file).join(", ");
  const some = [...names].slice(0, MAX_CONTEXTS).join(", ");
  const more = names.size > MAX_CONTEXTS ? ` and ${names.size - MAX_CONTEXTS} more` : "";
  throw new FleetError(
    "OPTION_INVALID",
    `there is no context ${JSON.stringify(context)} in ${paths}; ${names.size === 0 ? "it has none" : `there are ${some}${more}`}`,
  );
}

/** The first of several files that has the item; if none has it, the error names the first. */
function named(files: readonly Fields[], list: string, name: string): Fields {
  const found = files.find((it) => it.has(list) && it.items(list).some((item) => item.text("name") === name));
  const [first] = files;
  if (found === undefined && files.length > 1)
    throw new FleetError(
      "KUBECONFIG_INVALID",
      `none of the kubeconfigs ${files.map((it) => it.file).join(", ")} has "${name}" in ${list}`,
    );
  const file = found ?? first;
  if (file === undefined) throw new FleetError("KUBECONFIG_INVALID", "no kubeconfig found");
  return file.named(list, name);
}

/** As `loadKubeconfig`, from parsed YAML. */
async function parseKubeconfig(files: readonly Fields[], options: KubeconfigOptions): Promise<ClusterConfig> {
  const current = files.map((it) => it.text("current-context")).find((it) => it !== undefined);
  const name = options.context ?? current;
  if (name === undefined)
    throw files[0]?.invalid("current-context", "is not set; pass a context") ?? new Error("no kubeconfig");
  if (options.context !== undefined) refuseUnknown(files, options.context);
  const context = named(files, "contexts", name).object("context");
  const cluster = named(files, "clusters", context.needText("cluster")).object("cluster");
  const userName = context.text("user");
  const user = userName === undefined ? undefined : named(files, "users", userName).object("user");
  const namespace = context.text("namespace");
  const server = await parseCluster(cluster, options);
  const clock = options.clock ?? systemClock;
  return {
    name,
    ...server,
    credentials: user === undefined ? fixedCredentials({}) : parseUser(user, clock, server),
    ...defined({ namespace }),
  };
}

type ServerPart = Omit<ClusterConfig, "name" | "credentials" | "namespace">;

async function parseCluster(cluster: Fields, options: KubeconfigOptions): Promise<ServerPart> {
  const server = parseServer(cluster);
  const insecure = cluster.flag("insecure-skip-tls-verify");
  const ca = await cluster.pem("certificate-authority", options.clock ?? systemClock)?.read();
  if (insecure) {
    if (ca !== undefined)
      throw cluster.invalid(
        "insecure-skip-tls-verify",
        "contradicts certificate-authority; remove one of them",
      );
    const log = options.log ?? silentLogger;
    log.warn("the kubeconfig sets insecure-skip-tls-verify: not verifying the server's certificate", {
      server,
    });
  }
  const tlsServerName = cluster.text("tls-server-name");
  return {
    server,
    ...defined({ ca, tlsServerName }),
    ...(insecure ? { insecureSkipTlsVerify: true } : {}),
  };
}

function parseServer(cluster: Fields): string {
  const server = cluster.needText("server");
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol))
    throw cluster.invalid("server", "must be an http or https URL");
  if (cluster.text("proxy-url") !== undefined)
    throw cluster.invalid("proxy-url", "is not supported; reach the server without a proxy");
  return withoutTrailing(server, "/");
}

function parseUser(user: Fields, clock: Clock, server: ServerPart): Credentials {
  if (user.has("auth-provider"))
    throw user.invalid("auth-provider", "was removed from Kubernetes in 1.26; use an exec plugin");
  const certificate = user.pem("client-certificate", clock);
  const key = user.pem("client-key", clock);
  if ((certificate === undefined) !== (key === undefined))
    throw user.invalid(
      certificate === undefined ? "client-certificate" : "client-key",
      "is missing: both or none",
    );
  if (user.has("exec")) return parseExec(user.object("exec"), clock, server);
  const tokenFile = user.path("tokenFile");
  const token = tokenFile === undefined ? undefined : fileSource(clock, tokenFile, user.nameOf("tokenFile"));
  return staticUser(user, { certificate, key, token });
}

interface UserFiles {
  readonly certificate: FileSource | undefined;
  readonly key: FileSource | undefined;
  readonly token: FileSource | undefined;
}

/** Credentials in the file and in files it refers to; those are read again periodically. */
function staticUser(user: Fields, files: UserFiles): Credentials {
  const [inline, username, password] = [user.text("token"), user.text("username"), user.text("password")];
  return {
    async current() {
      const [certificate, key] = await Promise.all([files.certificate?.read(), files.key?.read()]);
      // As client-go has it: a token file wins over an inline token.
      const token = (await files.token?.read())?.trim() ?? inline;
      return {
        ...(certificate === undefined || key === undefined ? {} : { certificate, key }),
        ...defined({ token }),
        ...(username === undefined ? {} : { username, password: password ?? "" }),
      };
    },
    expire() {
      for (const file of [files.certificate, files.key, files.token]) file?.expire();
    },
  };
}

const EXEC_VERSIONS = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

function parseExec(exec: Fields, clock: Clock, server: ServerPart): Credentials {
  if (exec.isElsewhere) throw exec.invalid("", "runs a program; use a token or a certificate");
  const apiVersion = exec.needText("apiVersion");
  if (!EXEC_VERSIONS.includes(apiVersion))
    throw exec.invalid("apiVersion", `must be one of ${EXEC_VERSIONS.join(", ")}`);
  if (exec.text("interactiveMode") === "Always")
    throw exec.invalid("interactiveMode", "is Always, which needs a terminal; use IfAvailable or Never");
  const installHint = exec.text("installHint");
  const command = exec.needText("command");
  const plugin: ExecPlugin = {
    apiVersion,
    // A bare name is found in PATH; a path with a slash is relative to the kubeconfig.
    command: command.includes("/") ? (exec.path("command") ?? command) : command,
    args: exec.texts("args"),
    env: Object.fromEntries(exec.items("env").map((it) => [it.needText("name"), it.text("value") ?? ""])),
    field: exec.nameOf(""),
    ...defined({ installHint }),
    ...(exec.flag("provideClusterInfo") ? { cluster: clusterInfo(server) } : {}),
  };
  return execCredentials(plugin, clock);
}

function clusterInfo(server: ServerPart): Record<string, unknown> {
  return {
    server: server.server,
    ...(server.tlsServerName === undefined ? {} : { "tls-server-name": server.tlsServerName }),
    ...(server.insecureSkipTlsVerify === true ? { "insecure-skip-tls-verify": true } : {}),
    ...(server.ca === undefined
      ? {}
      : { "certificate-authority-data": Buffer.from(server.ca).toString("base64") }),
  };
}

interface Origin {
  readonly name: string;
  /** That relative paths begin at; undefined: the text is not of this machine. */
  readonly folder: string | undefined;
}

/** One mapping of the file, with the name it has in error messages. */
class Fields {
  readonly #fields: Record<string, unknown>;
  readonly #name: string;
  readonly #origin: Origin;
  constructor(value: unknown, name: string, origin: Origin) {
    this.#name = name;
    this.#origin = origin;
    if (!isObject(value)) throw this.invalid("", "must be a mapping");
    this.#fields = value;
  }
  get file(): string {
    return this.#origin.name;
  }
  get isElsewhere(): boolean {
    return this.#origin.folder === undefined;
  }
  nameOf(field: string): string {
    return [this.#name, field].filter((it) => it !== "").join(".");
  }
  invalid(field: string, what: string): FleetError {
    const name = this.nameOf(field);
    const message = `kubeconfig ${this.file}: ${name === "" ? "the file" : name} ${what}`;
    return new FleetError("KUBECONFIG_INVALID", message, { detail: { field: name, path: this.file } });
  }
  has(field: string): boolean {
    const value = this.#fields[field];
    return value !== undefined && value !== null;
  }
  text(field: string): string | undefined {
    const value = this.#fields[field];
    if (value === undefined || value === null || value === "") return undefined;
    if (typeof value !== "string") throw this.invalid(field, "must be a text");
    return value;
  }
  needText(field: string): string {
    const value = this.text(field);
    if (value === undefined) throw this.invalid(field, "is missing");
    return value;
  }
  flag(field: string): boolean {
    const value = this.#fields[field] ?? false;
    if (typeof value !== "boolean") throw this.invalid(field, "must be true or false");
    return value;
  }
  object(field: string): Fields {
    return new Fields(this.#fields[field], this.nameOf(field), this.#origin);
  }
  items(field: string): Fields[] {
    const value = this.#fields[field] ?? [];
    if (!Array.isArray(value)) throw this.invalid(field, "must be a list");
    return value.map((item, at) => new Fields(item, `${this.nameOf(field)}[${at}]`, this.#origin));
  }
  texts(field: string): string[] {
    const value = this.#fields[field] ?? [];
    if (!Array.isArray(value) || value.some((item) => typeof item !== "string"))
      throw this.invalid(field, "must be a list of texts");
    return value as string[];
  }
  /** The item of a list whose `name` is `name`. */
  named(list: string, name: string): Fields {
    const found = this.items(list).find((item) => item.text("name") === name);
    if (found === undefined) throw this.invalid(list, `has no item named "${name}"`);
    return found;
  }
  path(field: string): string | undefined {
    const value = this.text(field);
    if (value === undefined) return undefined;
    const { folder } = this.#origin;
    if (folder === undefined) throw this.invalid(field, "names a file; put in what the file contains");
    return resolve(folder, value);
  }
  /** `field-data` (base64, wins) or the file that `field` names. */
  pem(field: string, clock: Clock): FileSource | undefined {
    const data = this.text(`${field}-data`);
    if (data !== undefined) {
      const pem = Buffer.from(data, "base64").toString("utf8");
      if (!pem.includes("-----BEGIN ")) throw this.invalid(`${field}-data`, "is not base64 of PEM");
      return { read: () => Promise.resolve(pem), expire() {} };
    }
    const path = this.path(field);
    return path === undefined ? undefined : fileSource(clock, path, this.nameOf(field));
  }
}
