import { finish, type Steps } from "@fairlead/base/turn.ts";
import { MAX_YAML, readYaml, YamlError } from "@fairlead/kube/yaml/read.ts";
import { badRequest, tooLarge } from "#status.ts";
import { parseJsonSteps, type Parsed } from "./json.ts";

/**
 * Parses the YAML text of a request as Go's library does. Only the first document counts. Clients that apply send JSON under YAML's
 * media type, to which the limit of YAML does not apply.
 *
 * @throws {StatusError} 400 for malformed text, excessive aliases, and what `parseJson` refuses; 413 for YAML beyond
 * 64 Ki characters.
 */
export function parseYaml(source: string): Parsed {
  return finish(parseYamlSteps(source));
}

export function* parseYamlSteps(source: string): Steps<Parsed> {
  const text = source.startsWith("\uFEFF") ? source.slice(1) : source;
  if (/^\s*\{/.test(text)) {
    const canBeJson = isJson(text);
    yield;
    if (canBeJson) return yield* parseJsonSteps(text);
  }
  try {
    return readYaml(text);
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    if (error.problem === "tooLong")
      throw tooLarge(`YAML of more than ${MAX_YAML} characters is not taken: send JSON`);
    throw badRequest(`error decoding YAML: ${error.message}`);
  }
}

/** Most bodies of this type are JSON; a flow mapping of YAML looks like it at first. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
