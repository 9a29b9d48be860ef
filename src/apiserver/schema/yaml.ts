import { parse } from "yaml";
import { parseJson, type Parsed } from "./json.ts";
export function parseYaml(text: string): Parsed { const t=text.trimStart(); if (t.startsWith("{")) return parseJson(text); return { value: parse(text) as unknown, duplicates: [] }; }
