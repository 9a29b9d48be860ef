import { isObject } from "./json.ts";
import { messageOf } from "./errors.ts";

const PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EACCES: "this user may not read it",
  EPERM: "this user may not read it",
  EISDIR: "it is a directory",
  ENOTDIR: "a part of the path is not a directory",
};

/** Why a file could not be read, in words for people. */
export function fileProblem(error: unknown): string {
  const code = isObject(error) ? error["code"] : undefined;
  return (typeof code === "string" ? PROBLEMS[code] : undefined) ?? messageOf(error);
}
