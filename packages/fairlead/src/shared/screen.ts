/** Shows a text in the place of the one before on a terminal, and after it elsewhere. */
export class Screen {
  #lines = 0;

  show(text: string): void {
    const isTerminal = process.stdout.isTTY;
    if (isTerminal && this.#lines > 0) process.stdout.write(`\u001B[${this.#lines}A\u001B[0J`);
    else if (this.#lines > 0) process.stdout.write("\n");
    printText(text);
    this.#lines = text.split("\n").length;
  }
}
import { printText } from "@fairlead/base/print.ts";
