import { printText } from "@fairlead/base/print.ts";
import { Option } from "@commander-js/extra-typings";
import {
  LIST_OUTPUTS,
  type ListOutput,
  LOG_OUTPUTS,
  type LogOutput,
  OBJECT_OUTPUTS,
  type ObjectsOutput,
  renderData,
  RESULT_OUTPUTS,
  type ResultOutput,
} from "@fairlead/fleet/cli/output.ts";
import { FLAGS } from "./flags.ts";

/** The words are listed behind it. */
const HELP = "output format";
type OutputOption<Word> = Option<typeof FLAGS.output, undefined, Word, undefined, false, Word>;

/** `-o` of a command that acts. An unknown format is refused with the known ones. */
export const resultOption = (): OutputOption<ResultOutput> =>
  new Option(FLAGS.output, HELP).choices(RESULT_OUTPUTS).default(RESULT_OUTPUTS[0]);

/** `-o` of a command that shows things. */
export const listOption = (): OutputOption<ListOutput> =>
  new Option(FLAGS.output, HELP).choices(LIST_OUTPUTS).default(LIST_OUTPUTS[0]);

/** `-o` of a command that prints objects for others to read. */
export const objectsOption = (): OutputOption<ObjectsOutput> =>
  new Option(FLAGS.output, HELP).choices(OBJECT_OUTPUTS).default(OBJECT_OUTPUTS[0]);

/** `-o` of a command that prints a line for each thing as it comes. */
export const logOption = (): OutputOption<LogOutput> =>
  new Option(FLAGS.output, HELP).choices(LOG_OUTPUTS).default(LOG_OUTPUTS[0]);

/** Prints data to standard output; text for people has been printed to standard error. */
export function printResult(data: object, output: ResultOutput): void {
  if (output !== "text") printText(renderData(data, output));
}
