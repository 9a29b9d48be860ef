import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import { shown } from "#domain/formats.ts";
import { readNames } from "./catalog.ts";

/** Tags of a repository, as the OCI distribution specification lists them, with the anonymous token that registries ask for. */

/** Unit: bytes. */
const MAX_BODY = 8 * 1024 * 1024;
const PAGE = 1000;
/** Registries may give 100 tags a page, whatever is asked for; these are as many tags as a list may have. */
const MAX_PAGES = 200;

/** The part of `fetch` that is used. */
export type Fetch = (
  url: URL,
  init: { headers: Record<string, string>; signal: AbortSignal },
) => Promise<Response>;

/**
 * Lists the tags of a repository.
 *
 * @param repository - Such as "registry.k8s.io/kube-apiserver".
 * @throws {FleetError} `OPTION_INVALID` if it is not the name of one, `API_UNAVAILABLE` with what its registry answered.
 */
export async function listTags(
  repository: string,
  { fetch, signal }: { readonly fetch: Fetch; readonly signal: AbortSignal },
): Promise<readonly string[]> {
  let url: URL | undefined = firstPage(repository);
  const { origin } = url;
  const tags: string[] = [];
  let authorization: string | undefined;
  const ask = async (at: URL): Promise<Response> => {
    const headers = { accept: "application/json", ...(authorization === undefined ? {} : { authorization }) };
    try {
      return await fetch(at, { headers, signal });
    } catch (cause) {
      throw new FleetError(
        "API_UNAVAILABLE",
        `cannot ask ${at.host} for ${repository}: ${messageOf(cause)}`,
        {
          cause,
        },
      );
    }
  };
  for (let page = 0; url !== undefined && page < MAX_PAGES; page++) {
    let response = await ask(url);
    if (response.status === 401 && authorization === undefined) {
      await response.body?.cancel();
      authorization = await askToken(response.headers.get("www-authenticate") ?? "", url, ask);
      response = await ask(url);
    }
    if (!response.ok) {
      await response.body?.cancel();
      throw new FleetError(
        "API_UNAVAILABLE",
        `${url.host} answered ${response.status} for the tags of ${repository}`,
      );
    }
    tags.push(...readNames(await bounded(response, url.host), url.host));
    url = nextPage(response.headers.get("link"), url, origin);
  }
  // The newest versions may be on the last page.
  if (url !== undefined)
    throw new FleetError(
      "API_UNAVAILABLE",
      `${url.host} has more than ${MAX_PAGES} pages of tags of ${repository}`,
    );
  return tags;
}

const REPOSITORY = /^([a-z0-9][a-z0-9.-]*(?::\d{1,5})?)\/([a-z0-9]+(?:[._/-]+[a-z0-9]+)*)$/;

function firstPage(repository: string): URL {
  const [, host = "", path = ""] = (repository.length <= 512 ? REPOSITORY.exec(repository) : undefined) ?? [];
  if (!host.includes(".") && !host.startsWith("localhost"))
    throw new FleetError(
      "OPTION_INVALID",
      `--repository: ${shown(repository)} is not REGISTRY/NAME, such as registry.k8s.io/kube-apiserver`,
    );
  const name = host === "docker.io" ? "registry-1.docker.io" : host;
  // As container engines do for a registry of this machine.
  const scheme = /^(?:localhost|127\.0\.0\.1)(?::|$)/.test(host) ? "http" : "https";
  return new URL(`${scheme}://${name}/v2/${path}/tags/list?n=${PAGE}`);
}

/** Only pages of the same server: a token is not for others. */
function nextPage(link: string | null, url: URL, origin: string): URL | undefined {
  const [, target] = /^<([^<>]{1,2048})>; *rel="?next"?/.exec(link ?? "") ?? [];
  if (target === undefined || !URL.canParse(target, url.href)) return undefined;
  const next = new URL(target, url);
  return next.origin === origin && next.href !== url.href ? next : undefined;
}

/** Unit: characters. */
const MAX_CHALLENGE = 8192;
const FIELD = /\b(realm|service|scope)="([^"]*)"/g;
const TOKEN = /^[\x21-\x7e]{1,16384}$/;

/** Source: distribution specification, token authentication. */
async function askToken(challenge: string, url: URL, ask: (at: URL) => Promise<Response>): Promise<string> {
  const at = tokenServer(challenge, url);
  const response = await ask(at);
  const token = response.ok ? tokenIn(await bounded(response, at.host)) : undefined;
  if (token !== undefined) return `Bearer ${token}`;
  throw new FleetError("API_UNAUTHORIZED", `${at.host} gave no anonymous token for ${url.host}`);
}

function tokenServer(challenge: string, url: URL): URL {
  const found = challenge.slice(0, MAX_CHALLENGE).matchAll(FIELD);
  const fields = new Map(found.map(([, name = "", value = ""]) => [name, value] as const));
  const realm = fields.get("realm") ?? "";
  if (!challenge.startsWith("Bearer ") || !URL.canParse(realm))
    throw new FleetError(
      "API_UNAUTHORIZED",
      `${url.host} asks for credentials, and offers no anonymous token`,
    );
  const at = new URL(realm);
  if (at.protocol !== "https:" && at.origin !== url.origin)
    throw new FleetError("API_UNAUTHORIZED", `${url.host} names a token server without TLS: ${shown(realm)}`);
  for (const name of ["service", "scope"]) {
    const value = fields.get(name);
    if (value !== undefined) at.searchParams.set(name, value);
  }
  return at;
}

/** Undefined for what is not an answer of a token server. */
function tokenIn(text: string): string | undefined {
  try {
    const body: unknown = JSON.parse(text);
    const token = isObject(body) ? (body["token"] ?? body["access_token"]) : undefined;
    return typeof token === "string" && TOKEN.test(token) ? token : undefined;
  } catch {
    return undefined;
  }
}

async function bounded(response: Response, host: string): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const body: AsyncIterable<Uint8Array> | null = response.body;
  for await (const part of body ?? []) {
    size += part.byteLength;
    if (size > MAX_BODY)
      throw new FleetError("API_UNAVAILABLE", `the answer of ${host} is larger than ${MAX_BODY} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}
