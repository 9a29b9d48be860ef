import { Command, InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { parseDuration } from "#duration.ts";
import type { LogLevel } from "#log.ts";

/**
 * Parses flags as Go programs do: `-flag` is `--flag`, and a boolean is `--flag=VALUE` or `--flag` alone.
 * Sources: package flag of Go; k8s.io/klog/v2.
 */

export interface GoFlag<Value> {
  readonly help: string;
  readonly value: Value;
  /** The default as the help shows it; default: the value. */
  readonly shown?: string;
  readonly parse: (text: string) => Value;
  readonly isBool: boolean;
  /** Taken so that manifests need no change; not listed in the help. */
  readonly isHidden?: boolean;
}

type Flags = Readonly<Record<string, GoFlag<unknown>>>;
export type GoValues<F extends Flags> = {
  readonly [Name in keyof F]: F[Name] extends GoFlag<infer Value> ? Value : never;
};

export function goBool(value: boolean, help: string): GoFlag<boolean> {
  return { help, value, parse: parseBool, isBool: true };
}

export function goText<Default extends string | undefined>(
  value: Default,
  help: string,
): GoFlag<string | Default> {
  return { help, value, parse: (text) => text, isBool: false };
}

/** Unit: milliseconds. */
export function goDuration(text: string, help: string): GoFlag<number> {
  const parse = (given: string): number => {
    const ms = parseDuration(given);
    if (ms === undefined) throw new InvalidArgumentError("It must be a duration, such as 15m or 2s.");
    return ms;
  };
  return { help, value: parse(text), shown: text, parse, isBool: false };
}

/** A flag that may be given several times. */
export function goTexts(help: string): GoFlag<readonly string[]> {
  let all: readonly string[] = [];
  return { help, value: all, parse: (text) => (all = [...all, text]), isBool: false };
}

/** strconv.ParseBool. */
function parseBool(text: string): boolean {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  throw new InvalidArgumentError("It must be true or false.");
}

/** Flags of klog for the destination and the format of the log, which is always JSON on standard error. */
const KLOG_BOOLS = [
  "add_dir_header",
  "alsologtostderr",
  "logtostderr",
  "one_output",
  "skip_headers",
  "skip_log_headers",
];
const KLOG_TEXTS = [
  "log_backtrace_at",
  "log_dir",
  "log_file",
  "log_file_max_size",
  "stderrthreshold",
  "vmodule",
];
const KLOG: Flags = Object.fromEntries<GoFlag<unknown>>([
  ...KLOG_BOOLS.map((name) => [name, { ...goBool(false, ""), isHidden: true }] as const),
  ...KLOG_TEXTS.map((name) => [name, { ...goText("", ""), isHidden: true }] as const),
]);

/** klog's verbosity as a level: from 4 on, "debug level verbosity" (Kubernetes logging conventions). */
export function levelOf(verbosity: number): LogLevel {
  return verbosity >= 4 ? "debug" : "info";
}

export function goVerbosity(): GoFlag<number> {
  const parse = (text: string): number => {
    if (!/^-?\d{1,3}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
    return Number(text);
  };
  return { help: "how much is logged, as klog counts; from 4 on, all", value: 0, parse, isBool: false };
}

class GoCommand extends Command {
  override parseAsync(
    argv?: readonly string[],
    options?: Parameters<Command["parseAsync"]>[1],
  ): Promise<this> {
    return super.parseAsync(argv?.map(asLongFlag), options);
  }
}

/** Go takes one dash for two, whatever the length of the name. */
function asLongFlag(text: string): string {
  return /^-[a-z]/i.test(text) && text !== "-h" ? `-${text}` : text;
}

export function goCommand<F extends Flags>(
  it: { readonly name: string; readonly description: string; readonly flags: F },
  run: (values: GoValues<F>) => Promise<void>,
): Command {
  const command = new GoCommand(it.name).description(it.description);
  const options = Object.entries({ ...it.flags, ...KLOG }).map(([name, flag]) => {
    const option = new Option(`--${name} ${flag.isBool ? "[bool]" : "<value>"}`, flag.help)
      .argParser(flag.parse)
      .default(flag.value, flag.shown);
    if (flag.isBool) option.preset("true");
    if (flag.isHidden === true) option.hideHelp();
    command.addOption(option);
    return [name, option.attributeName()] as const;
  });
  return command.action(async () => {
    const given: Record<string, unknown> = command.opts();
    const values = Object.fromEntries(options.map(([name, attribute]) => [name, given[attribute]]));
    await run(values as GoValues<F>);
  });
}
