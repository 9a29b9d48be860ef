import generated from "./messages.generated.json" with { type: "json" };

/** Set for lists. */
export const REPEATED = 1;
/** A zero value is meaningful: the Go field is a pointer. */
export const POINTER = 2;
/** The JSON tag has no `omitempty`: zero values are written. */
export const ALWAYS = 4;
/** `map<string, type>`. */
export const MAP = 8;

export interface MessageField {
  /** Empty: the fields of the message are those of the one around it. */
  readonly json: string;
  /** `string`, `bytes`, `bool`, `int32`, `int64`, `double`, or the name of a definition. */
  readonly type: string;
  readonly bits: number;
}

/** A message's fields by number. */
export type Message = ReadonlyMap<number, MessageField>;

/** Protobuf messages by the name of their OpenAPI definition. */
export const MESSAGES: ReadonlyMap<string, Message> = new Map(
  Object.entries(generated as unknown as Record<string, [number, string, string, number][]>).map(
    ([name, rows]) => [
      name,
      new Map(rows.map(([number, json, type, bits]) => [number, { json, type, bits }])),
    ],
  ),
);
