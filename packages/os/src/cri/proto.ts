import { create, createFileRegistry, type Message } from "@bufbuild/protobuf";
import type { GenMessage, GenService } from "@bufbuild/protobuf/codegenv2";
import {
  type DescriptorProto,
  DescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  type FieldDescriptorProto,
  FieldDescriptorProtoSchema,
  FileDescriptorProtoSchema,
  MethodDescriptorProtoSchema,
  ServiceDescriptorProtoSchema,
} from "@bufbuild/protobuf/wkt";

/** A gRPC service as tables: the fields of each message with their numbers, and the messages of each method. */

/** Types that a field has in TypeScript. An enum is an int32: both are the same bytes. `map` is of strings by strings. */
export interface Scalars {
  readonly string: string;
  readonly bool: boolean;
  readonly int32: number;
  readonly uint32: number;
  readonly map: Readonly<Record<string, string>>;
}

/** Number and type. The type is a scalar, the name of a message, or that name and `[]` for a repeated field. */
export type Field = readonly [number: number, type: string];
/** Only the fields that we use: others are skipped when read. Zeros and empty texts are not sent (proto3). */
export type Messages = Readonly<Record<string, Readonly<Record<string, Field>>>>;
export type Methods = Readonly<Record<string, readonly [input: string, output: string]>>;

export type Value<M extends Messages, T> = T extends keyof Scalars
  ? Scalars[T]
  : T extends `${infer Name}[]`
    ? readonly Shape<M, Name>[]
    : Shape<M, T> | undefined;

/** The type of a message of the table. */
export type Shape<M extends Messages, Name> = Name extends keyof M & string
  ? Message<Name> & { readonly [F in keyof M[Name]]: Value<M, M[Name][F][1]> }
  : never;

export interface Unary<M extends Messages, Pair extends readonly [string, string]> {
  readonly methodKind: "unary";
  readonly input: GenMessage<Shape<M, Pair[0]>>;
  readonly output: GenMessage<Shape<M, Pair[1]>>;
}
export type Service<M extends Messages, S extends Methods> = GenService<{
  [Method in keyof S & string as Uncapitalize<Method>]: Unary<M, S[Method]>;
}>;

/** @param name - Full name, for example `runtime.v1.RuntimeService`. */
export function defineService<const M extends Messages, const S extends Methods>(
  name: string,
  { messages, methods }: { readonly messages: M; readonly methods: S },
): Service<M, S> {
  const dot = name.lastIndexOf(".");
  const scope = name.slice(0, dot);
  const file = create(FileDescriptorProtoSchema, {
    name: `${name}.proto`,
    package: scope,
    syntax: "proto3",
    messageType: Object.entries(messages).map(([message, fields]) => describe(`.${scope}`, message, fields)),
    service: [
      create(ServiceDescriptorProtoSchema, {
        name: name.slice(dot + 1),
        method: Object.entries(methods).map(([method, [input, output]]) =>
          create(MethodDescriptorProtoSchema, {
            name: method,
            inputType: `.${scope}.${input}`,
            outputType: `.${scope}.${output}`,
          }),
        ),
      }),
    ],
  });
  const service = createFileRegistry(file, () => undefined).getService(name);
  if (service === undefined) throw new Error(`${name} is not a full name`);
  return service as unknown as Service<M, S>;
}

const SCALARS: Readonly<Record<string, Type>> = {
  string: Type.STRING,
  bool: Type.BOOL,
  int32: Type.INT32,
  uint32: Type.UINT32,
};

function describe(scope: string, name: string, fields: Readonly<Record<string, Field>>): DescriptorProto {
  const entries = Object.entries(fields);
  return create(DescriptorProtoSchema, {
    name,
    field: entries.map(([field, [number, type]]) =>
      describeField(`${scope}.${name}`, field, { number, type }),
    ),
    nestedType: entries
      .filter(([, [, type]]) => type === "map")
      .map(([field]) =>
        create(DescriptorProtoSchema, {
          name: entryName(field),
          field: ["key", "value"].map((it, at) => describeField("", it, { number: at + 1, type: "string" })),
          options: { mapEntry: true },
        }),
      ),
  });
}

/** @param scope - Name of the message. */
function describeField(
  scope: string,
  name: string,
  { number, type }: { readonly number: number; readonly type: string },
): FieldDescriptorProto {
  const scalar = SCALARS[type];
  const isRepeated = type === "map" || type.endsWith("[]");
  const label = isRepeated ? Label.REPEATED : Label.OPTIONAL;
  const common = { name, jsonName: name, number, label };
  if (scalar !== undefined) return create(FieldDescriptorProtoSchema, { ...common, type: scalar });
  const typeName =
    type === "map"
      ? `${scope}.${entryName(name)}`
      : `${scope.slice(0, scope.lastIndexOf("."))}.${type.replace("[]", "")}`;
  return create(FieldDescriptorProtoSchema, { ...common, type: Type.MESSAGE, typeName });
}

/** The message that stands for an entry of a map. Source: the comment of MessageOptions.map_entry in descriptor.proto. */
function entryName(field: string): string {
  return `${field.slice(0, 1).toUpperCase()}${field.slice(1)}Entry`;
}
