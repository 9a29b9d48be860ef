import { byText } from "@fairlead/base/text.ts";
import { badRequest, type FieldError } from "#status.ts";
import { invalidValue } from "./metadata.ts";
import { labelValueProblems, qualifiedNameProblems } from "#values/names.ts";
import { isInt } from "./numbers.ts";

/** Label selectors as queries write them, refused in upstream's words. Source: apimachinery, pkg/labels. */

type Labels = Readonly<Record<string, string>>;
export type LabelTest = (labels: Labels) => boolean;

/** @throws {StatusError} 400 when the selector cannot be read. */
export function parseLabelSelector(text: string): LabelTest {
  const tests = new Parser(text).requirements();
  return (labels) => tests.every((test) => test(labels));
}

const COMPARISONS = new Set(["=", "==", "!=", "<", ">"]);
const SYMBOLS = new Set([...COMPARISONS, "!", "(", ")", ","]);
const END = "";

class Parser {
  /** Words and symbols, then END for ever. */
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = text.match(/!=|==|[=!(),<>]|[^\s=!(),<>]+/g) ?? [];
  }

  get #next(): string {
    return this.#tokens[this.#at] ?? END;
  }

  #take(): string {
    const token = this.#next;
    this.#at += 1;
    return token;
  }

  requirements(): readonly LabelTest[] {
    const tests: LabelTest[] = [];
    while (this.#next !== END) {
      if (!isWord(this.#next) && this.#next !== "!")
        throw badRequest(`found '${this.#next}', expected: !, identifier, or 'end of string'`);
      tests.push(this.#requirement());
      const separator = this.#take();
      if (separator === END) break;
      if (separator !== ",") throw badRequest(`found '${separator}', expected: ',' or 'end of string'`);
      if (!isWord(this.#next) && this.#next !== "!")
        throw badRequest(`found '${this.#next}', expected: identifier after ','`);
    }
    return tests;
  }

  #requirement(): LabelTest {
    const isAbsence = this.#next === "!";
    if (isAbsence) this.#take();
    const key = this.#word();
    refuse(keyErrors(key));
    if (isAbsence) return (labels) => !Object.hasOwn(labels, key);
    if (this.#next === END || this.#next === ",") return (labels) => Object.hasOwn(labels, key);
    const operator = this.#take();
    if (operator === "in" || operator === "notin") return membership(key, operator, this.#values());
    if (COMPARISONS.has(operator)) return comparison(key, operator, this.#exactValue());
    throw unreadable(`found '${operator}', expected: in, notin, =, ==, !=, gt, lt`);
  }

  #word(): string {
    const word = this.#take();
    if (!isWord(word)) throw unreadable(`found '${word}', expected: identifier`);
    return word;
  }

  /** Nothing is the empty value. */
  #exactValue(): string {
    return this.#next === END || this.#next === "," ? "" : this.#word();
  }

  /** `(a,b)`; between commas may be nothing. */
  #values(): readonly string[] {
    const open = this.#take();
    if (open !== "(") throw unreadable(`found '${open}' expected: '('`);
    const values: string[] = [];
    for (;;) {
      values.push(isWord(this.#next) ? this.#take() : "");
      const separator = this.#take();
      if (separator === ")") return values;
      if (separator !== ",") throw unreadable(`found '${separator}', expected: ',' or ')'`);
    }
  }
}

function isWord(token: string): boolean {
  return token !== END && !SYMBOLS.has(token);
}

function membership(key: string, operator: "in" | "notin", given: readonly string[]): LabelTest {
  const values = new Set(given);
  refuse(valueErrors(key, [...values].toSorted(byText)));
  if (operator === "in") return (labels) => Object.hasOwn(labels, key) && values.has(labels[key] ?? "");
  return (labels) => !Object.hasOwn(labels, key) || !values.has(labels[key] ?? "");
}

function comparison(key: string, operator: string, value: string): LabelTest {
  if (operator === "<" || operator === ">") return order(key, operator, value);
  refuse(valueErrors(key, [value]));
  const isWanted = operator !== "!=";
  return (labels) => (Object.hasOwn(labels, key) && labels[key] === value) === isWanted;
}

function order(key: string, operator: "<" | ">", value: string): LabelTest {
  const why = "for 'Gt', 'Lt' operators, the value must be an integer";
  refuse([...(isInt(value) ? [] : [invalidValue("values[0]", value, why)]), ...valueErrors(key, [value])]);
  const sign = operator === "<" ? -1 : 1;
  const bound = Number(value);
  return (labels) => {
    const label = Object.hasOwn(labels, key) ? (labels[key] ?? "") : "";
    return isInt(label) && (Number(label) - bound) * sign > 0;
  };
}

function keyErrors(key: string): readonly FieldError[] {
  const problems = qualifiedNameProblems(key);
  return problems.length === 0 ? [] : [invalidValue("<nil>", key, problems.join("; "))];
}

function valueErrors(key: string, values: readonly string[]): readonly FieldError[] {
  return values.flatMap((value, at) => {
    const problems = labelValueProblems(value);
    return problems.length === 0 ? [] : [invalidValue(`values[${at}][${key}]`, value, problems.join("; "))];
  });
}

function refuse(errors: readonly FieldError[]): void {
  if (errors.length === 0) return;
  const texts = errors.map(({ field, message }) => `${field}: ${message}`);
  throw unreadable(texts.length === 1 ? (texts[0] ?? "") : `[${texts.join(", ")}]`);
}

function unreadable(why: string): Error {
  return badRequest(`unable to parse requirement: ${why}`);
}
