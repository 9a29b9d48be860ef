import {
  dnsLabelProblems,
  formText,
  labelValueProblems,
  qualifiedNameProblems,
  subdomainProblems,
  tooLong,
  wholly,
} from "#values/names.ts";
import { isOfFormat } from "#schema/formats.ts";
import type { Declaration } from "../function.ts";
import { type CelType, structOf } from "../type.ts";
import { type CelValue, Opaque, Optional } from "../value.ts";
import { parseRequestUri, UrlProblem } from "./url-parts.ts";

/** Forms of names and other texts. Source: k8s.io/apiserver, pkg/cel/library/format.go. */

const FORMAT = structOf("kubernetes.NamedFormat");

type Check = (text: string) => readonly string[];

class NamedFormat extends Opaque {
  readonly celType: CelType = FORMAT;
  readonly name: string;
  readonly check: Check;
  readonly #patternSize: number;
  constructor(name: string, check: Check, size: number) {
    super();
    this.name = name;
    this.check = check;
    this.#patternSize = size;
  }
  /** Unit: characters of the pattern that counts for cost. */
  override get celSize(): number {
    return this.#patternSize;
  }
  isSame(other: CelValue): boolean {
    return other instanceof NamedFormat && other.name === this.name;
  }
}

const LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?";

function label1035Problems(text: string): readonly string[] {
  const what =
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, " +
    "and end with an alphanumeric character";
  const isLabel = wholly(LABEL_1035).test(text);
  return [
    ...tooLong(text, 63, "characters"),
    ...(isLabel ? [] : [formText(what, LABEL_1035, "my-name", "abc-123")]),
  ];
}

/** Names that are made longer may end in what the whole may not. */
function asPrefix(check: Check): Check {
  return (text) => check(text.length > 1 && text.endsWith("-") ? `${text.slice(0, -2)}a` : text);
}

function ofFormat(format: string, problem: string): Check {
  return (text) => (isOfFormat(text, format) ? [] : [problem]);
}

function uriProblems(text: string): readonly string[] {
  try {
    parseRequestUri(text);
    return [];
  } catch (error) {
    if (error instanceof UrlProblem) return [error.message];
    throw error;
  }
}

const DATE_TIME_PATTERN_SIZE = 70;
const UUID_PATTERN_SIZE = 72;

const FORMATS: ReadonlyMap<string, NamedFormat> = new Map(
  (
    [
      ["dns1123Label", dnsLabelProblems, 30],
      ["dns1123Subdomain", subdomainProblems, 60],
      ["dns1035Label", label1035Problems, 30],
      ["qualifiedName", qualifiedNameProblems, 60],
      ["dns1123LabelPrefix", asPrefix(dnsLabelProblems), 30],
      ["dns1123SubdomainPrefix", asPrefix(subdomainProblems), 60],
      ["dns1035LabelPrefix", asPrefix(label1035Problems), 30],
      ["labelValue", labelValueProblems, 40],
      ["uri", uriProblems, 1103],
      ["uuid", ofFormat("uuid", "does not match the UUID format"), UUID_PATTERN_SIZE],
      ["byte", ofFormat("byte", "invalid base64"), 84],
      ["date", ofFormat("date", "invalid date"), DATE_TIME_PATTERN_SIZE],
      ["datetime", ofFormat("date-time", "invalid datetime"), DATE_TIME_PATTERN_SIZE],
    ] as const
  ).map(([name, check, size]) => [name, new NamedFormat(name, check, size)]),
);

function validate({ check }: NamedFormat, text: string): Optional {
  const problems = check(text);
  return problems.length === 0 ? Optional.NONE : Optional.of(problems);
}

function named(name: string): Optional {
  const format = FORMATS.get(name);
  return format === undefined ? Optional.NONE : Optional.of(format);
}

export const NAMED_FORMATS: readonly Declaration[] = [
  ...[...FORMATS].map(([name, format]): Declaration => [
    `format.${name}`,
    [`format.${name}() -> kubernetes.NamedFormat`, () => format],
  ]),
  ["format.named", ["format-named(string) -> optional_type(kubernetes.NamedFormat)", named]],
  ["validate", [".format-validate(kubernetes.NamedFormat, string) -> optional_type(list(string))", validate]],
];
