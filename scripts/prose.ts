/**
 * `node scripts/prose.ts`: finds turns of phrase that are hard to read, in comments, messages, test names and Markdown.
 * A text that must equal an upstream one has `prose: upstream` on its line or on the line before.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { root } from "./steps.ts";

export interface Banned {
  readonly pattern: RegExp;
  readonly instead: string;
}

/** Each pattern takes time linear in the text. */
export const BANNED: readonly Banned[] = [
  {
    pattern: /(?<!\b[Tt]here )\b(?:is|are|was|were|be) no (?!longer\b|more\b|less\b|one\b)\w+/g,
    instead: "is not a X; has no X",
  },
  {
    pattern: /(?<!\b[Tt]here )\b(?:is|are|was|were) none\b|\bthat are no\b/g,
    instead: "does not exist; is empty; is not one",
  },
  {
    pattern: /\b(?:where|while|when|if) there (?:is|are|was|were) none\b/g,
    instead: "if absent; undefined if not set",
  },
  {
    pattern: /\b(?:is|are|was|were|be|been|being|gets?) (?:told|said)\b/g,
    instead: "is reported; receives; is notified",
  },
  {
    pattern:
      /\b(?:tell|tells|telling) (?:who|whom|what|which|whether|where|how|of|that|why|nobody|the|it)\b/g,
    instead: "reports; shows; returns",
  },
  { pattern: /\banew\b/g, instead: "again; restart, recreate, resend" },
  { pattern: /\bof (?:ours|yours|theirs)\b/g, instead: "our X; your X; the owner's X" },
  { pattern: /\bwho(?:m)?ever\b/gi, instead: "any client that; the caller" },
  {
    pattern: /\b(?:for|to|of|by|from|with|and|than|as) whom?\b/g,
    instead: "name the actor: the requester, the reader, the owner",
  },
  {
    pattern: /(?:^|[.:;*/`"#] ?)\s*Who(?:m|se)? (?!(?:am|are|is|was) (?:I|you|it)\b)\w/gm,
    instead: "begin with a noun: the owner of, clients that",
  },
  { pattern: /\b(?:no|some|any)body\b/gi, instead: "another client; no process; a user" },
  { pattern: /\bmeanwhile\b/g, instead: "concurrently; in the meantime; since then" },
  { pattern: /\bbeside\b/gi, instead: "next to; alongside; in addition to" },
  { pattern: /\bstands?\b(?! (?:for|in for|by)\b)/g, instead: "is; appears; occurs; applies" },
  {
    pattern: /\b(?:lies|lie) (?:in|at|beside|under|on|there|where|around|above)\b/g,
    instead: "is in; is stored in",
  },
  { pattern: /\b(?:go|goes|going|went|gone) on\b/g, instead: "continues; keeps" },
  {
    pattern: /\b(?:tak(?:e|es|en|ing)|took|giv(?:e|es|en|ing)) (?:\w+ ){0,2}(?:away|back)\b/g,
    instead: "removes; deletes; reverts; releases; returns",
  },
  { pattern: /\b(?:let|lets|letting) (?:\w+ ){0,2}go\b/g, instead: "releases; removes" },
  {
    pattern: /\b(?:comes?|came|coming) to (?:rest|be|the same|an end|it|what|this)\b/g,
    instead: "converges; becomes; ends",
  },
  {
    pattern:
      /\bin vain\b|\bof before\b|\bof the sort\b|\bthe like\b|\bwithout a word\b|\bonce more\b|\bsee to it\b/g,
    instead: "without result; previous; again; make sure",
  },
  { pattern: /\bmend(?:s|ed|ing)?\b/g, instead: "repairs; fixes" },
  { pattern: /\btime-outs?\b/g, instead: "timeout" },
  { pattern: /\bother[- ]origin\b/g, instead: "legacy" },
];

const FOLDERS = ["packages", "test", "scripts", "bench", "docs", "charts", "examples", "bin", "images"];
const FILES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", ".ci/run"];
const IS_READ = /\.(ts|mjs|md|yaml|tpl|sh)$/;
/** What others wrote, what is made of something else, and this list. */
const IS_LEFT_OUT =
  /node_modules\/|\.generated\.|corpus\/recorded\/|recorded-objects\/[^/]+\/|test\/compat\/manifests\/|scripts\/prose(\.test)?\.ts$/;

export interface Finding {
  readonly file: string;
  readonly line: number;
  readonly phrase: string;
  readonly instead: string;
}

/** The first letter of a sentence, of a comment or of a string. */
const SENTENCE_START = /(?:^|[.:;*/`"#] ?)\s*[A-Z](?=[a-z])/gm;

/** The findings in one text, also at the start of a sentence. Pure. */
export function findIn(file: string, text: string): readonly Finding[] {
  const lines = text.split("\n");
  const lowered = text.replace(SENTENCE_START, (it) => it.toLowerCase());
  return BANNED.flatMap(({ pattern, instead }) => {
    const found = new Map(
      [...lowered.matchAll(pattern), ...text.matchAll(pattern)].map((it) => [it.index, it[0]]),
    );
    return [...found].flatMap(([index, phrase]) => {
      const line = text.slice(0, index + phrase.length).split("\n").length;
      const isUpstream = [lines[line - 1], lines[line - 2]].some((it) => it?.includes("prose: upstream"));
      return isUpstream ? [] : [{ file, line, phrase: phrase.trim(), instead }];
    });
  });
}

export function proseFiles(): readonly string[] {
  const found = FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((it) => it.isFile() && IS_READ.test(it.name))
      .map((it) => relative(root, join(it.parentPath, it.name))),
  );
  return [...FILES, ...found].filter((it) => !IS_LEFT_OUT.test(it)).toSorted();
}

if (import.meta.main) {
  const wanted = process.argv.slice(2);
  const files = proseFiles().filter((it) => wanted.length === 0 || wanted.some((one) => it.startsWith(one)));
  const findings = files.flatMap((it) => findIn(it, readFileSync(join(root, it), "utf8")));
  for (const it of findings.toSorted((a, b) =>
    a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line,
  ))
    process.stdout.write(`${it.file}:${it.line}: "${it.phrase}": ${it.instead}\n`);
  process.stdout.write(`prose: ${findings.length} findings in ${files.length} files\n`);
  if (findings.length > 0) process.exitCode = 1;
}
