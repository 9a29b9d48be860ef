import { oneLine } from "@fairlead/base/print.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import { renderData } from "../output.ts";
import { type Column, renderTable } from "../table.ts";
import { type Check, CHECKS, type Result } from "./probes.ts";
import type { Verification } from "./run.ts";

/** Renders results for people and programs. Pure. */

export const VERIFY_OUTPUTS = ["text", "wide", "json", "yaml", "junit"] as const;
export type VerifyOutput = (typeof VERIFY_OUTPUTS)[number];

export interface Summary {
  /** Ordered pairs of clusters. */
  readonly pairs: number;
  readonly pairsPassed: number;
  readonly checks: number;
  readonly failed: number;
  readonly skipped: number;
}

export function summarize(results: readonly Result[]): Summary {
  const pairs = [...pairsOf(results).values()];
  const having = (status: Result["status"]): number => results.filter((it) => it.status === status).length;
  return {
    pairs: pairs.length,
    pairsPassed: pairs.filter((own) => own.every((it) => it.status !== "failed")).length,
    checks: results.length,
    failed: having("failed"),
    skipped: having("skipped"),
  };
}

/** Without a final line break. */
export function renderVerification(verification: Verification, output: VerifyOutput): string {
  const results = verification.results.map(plainResult).toSorted(byPlace);
  switch (output) {
    case "text":
      return renderText(results);
    case "wide":
      return renderTable(WIDE, results);
    case "junit":
      return renderJunit(results);
    default:
      return renderData({ run: verification.run, summary: summarize(results), results }, output);
  }
}

/** Other clusters have a say in the detail: characters that steer a terminal, or have no form in XML 1.0, become spaces. */
function plainResult(result: Result): Result {
  return { ...result, detail: result.detail.replaceAll(/[\p{Cc}\p{Cf}]/gu, " ") };
}

function byPlace(a: Result, b: Result): number {
  return (
    byNaturalText(a.from, b.from) ||
    byNaturalText(a.to, b.to) ||
    CHECKS.indexOf(a.check) - CHECKS.indexOf(b.check) ||
    (a.family < b.family ? -1 : 1)
  );
}

function pairsOf(results: readonly Result[]): Map<string, Result[]> {
  return Map.groupBy(results, ({ from, to }) => `${from} ${to}`);
}

/** The columns of the table for people, and the checks in each. */
const COLUMNS: readonly (readonly [string, readonly Check[]])[] = [
  ["TCP", ["tcp", "large"]],
  ["UDP", ["udp"]],
  ["ICMP", ["icmp"]],
  ["SERVICE", ["service-tcp", "service-udp"]],
  ["DNS", ["dns-service", "dns-pods"]],
];

function renderText(results: readonly Result[]): string {
  const rows = [...pairsOf(results).values()];
  const columns: Column<Result[]>[] = [
    { head: "FROM", cell: ([first]) => first?.from ?? "" },
    { head: "TO", cell: ([first]) => first?.to ?? "" },
    ...COLUMNS.map(([head, checks]) => ({ head, cell: (own: Result[]) => cellOf(own, checks) })),
    { head: "MTU", cell: mtuOf },
  ];
  const failed = results.filter((it) => it.status === "failed");
  const { pairs, pairsPassed, checks, skipped } = summarize(results);
  return [
    renderTable(columns, rows),
    ...(failed.length === 0 ? [] : ["", ...failed.map((it) => oneLine(sentence(it)))]),
    "",
    `${pairsPassed} of ${pairs} ordered pairs of clusters pass; ${checks} checks, ${failed.length} failed, ${skipped} skipped`,
  ].join("\n");
}

/** "ok", or the families that fail; "-" if nothing was checked. */
function cellOf(own: readonly Result[], checks: readonly Check[]): string {
  const found = own.filter((it) => checks.includes(it.check) && it.status !== "skipped");
  if (found.length === 0) return "-";
  const failed = found.filter((it) => it.status === "failed");
  if (failed.length === 0) return "ok";
  return failed.length === found.length
    ? "failed"
    : `failed (${[...new Set(failed.map((it) => it.family))].join(", ")})`;
}

/** The smaller of both families' is what programs of both can count on. */
function mtuOf(own: readonly Result[]): string {
  const found = own.filter((it) => it.check === "mtu" && it.status !== "skipped");
  if (found.some((it) => it.status === "failed")) return "failed";
  const sizes = found.flatMap((it) => it.mtu ?? []);
  return sizes.length === 0 ? "-" : String(Math.min(...sizes));
}

function sentence({ from, to, check, family, detail }: Result): string {
  return `${from} to ${to}: ${check}${check === "import" ? "" : ` over ${family}`} failed: ${detail}`;
}

const WIDE: readonly Column<Result>[] = [
  { head: "FROM", cell: (it) => it.from },
  { head: "TO", cell: (it) => it.to },
  { head: "CHECK", cell: (it) => it.check },
  { head: "FAMILY", cell: (it) => it.family },
  { head: "STATUS", cell: (it) => it.status },
  { head: "MS", cell: (it) => String(it.ms) },
  { head: "DETAIL", cell: (it) => it.detail },
];

/** A test suite for each cluster that probed, as CI systems read them. */
function renderJunit(results: readonly Result[]): string {
  const suites = [...Map.groupBy(results, (it) => it.from)].map(([from, own]) => {
    const { failed, skipped } = summarize(own);
    const counts = `tests="${own.length}" failures="${failed}" skipped="${skipped}"`;
    return [`  <testsuite name="${xml(from)}" ${counts}>`, ...own.map(testCase), "  </testsuite>"].join("\n");
  });
  const { checks, failed, skipped } = summarize(results);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="fairlead verify" tests="${checks}" failures="${failed}" skipped="${skipped}">`,
    ...suites,
    "</testsuites>",
  ].join("\n");
}

function testCase({ from, to, check, family, status, ms, detail }: Result): string {
  const name = xml(`${check} to ${to} over ${family}`);
  const head = `    <testcase classname="${xml(from)}" name="${name}" time="${(ms / 1000).toFixed(3)}"`;
  if (status === "passed") return `${head}/>`;
  const element = status === "failed" ? "failure" : "skipped";
  return `${head}><${element} message="${xml(detail)}"/></testcase>`;
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

function xml(text: string): string {
  return oneLine(text).replaceAll(/[&<>"]/g, (it) => ENTITIES[it] ?? it);
}
