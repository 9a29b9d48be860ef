import { endOfString } from "./json.ts";

const QUOTE = 0x22;
const SPACE = 0x20;
/** `\\u003c` stands for one character. */
const ESCAPED = 5;

/** The least that JSON text can be written in: without blanks between its tokens, and with no character escaped. */
export function compactLength(text: string): number {
  let length = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code <= SPACE) length--;
  }
  for (let at = text.indexOf("\\"); at !== -1; at = text.indexOf("\\", at + 2)) {
    length -= text.charAt(at + 1) === "u" ? ESCAPED : 1;
  }
  return length;
}
