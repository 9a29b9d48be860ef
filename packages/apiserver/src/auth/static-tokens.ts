import { FleetError } from "@fairlead/base/errors.ts";
import type { UserInfo } from "#values/object.ts";
import { forApiServer, type TokenSource } from "./token-source.ts";

/** Tokens that stand for a user as they are (`--token-auth-file`). */
export function staticTokens(
  users: ReadonlyMap<string, UserInfo>,
  apiAudiences: readonly string[],
): TokenSource {
  return {
    authenticate(token, audiences) {
      const user = users.get(token);
      return user === undefined ? undefined : forApiServer(user, audiences, apiAudiences);
    },
  };
}

/**
 * Reads a file of tokens: CSV with token, user, uid and, if wanted, groups in quotes ("a,b").
 *
 * @throws {FleetError} `OPTION_INVALID` for a malformed line; the error does not contain the token.
 */
export function parseTokenFile(text: string): Map<string, UserInfo> {
  const users = new Map<string, UserInfo>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "") continue;
    const [token = "", name = "", uid, groups = ""] = splitCsv(line);
    if (uid === undefined || token === "" || name === "") {
      const message = `line ${index + 1} of the token file needs a token, a user's name and a uid`;
      throw new FleetError("OPTION_INVALID", message);
    }
    const names = groups.split(",").filter((it) => it !== "");
    users.set(token, { name, ...(uid === "" ? {} : { uid }), groups: names });
  }
  return users;
}

/** RFC 4180, without line breaks inside quotes. */
function splitCsv(line: string): string[] {
  const fields = line.match(/("([^"]|"")*"|[^,]*)(,|$)/g) ?? [];
  const texts = fields.map((it) => it.replace(/,$/, "").trim());
  // The match at the very end is the empty one behind the last field.
  if (!line.endsWith(",")) texts.pop();
  return texts.map((it) => (it.startsWith('"') ? it.slice(1, -1).replaceAll('""', '"') : it));
}
