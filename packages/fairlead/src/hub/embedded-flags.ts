/** Flags of the hub that serves its own API. */

export const EMBEDDED_FLAG = [
  "--embedded",
  "serve the hub's API from this process; needs --data, and no cluster",
] as const;
export const DATA_FLAG = [
  "--data <folder>",
  "with --embedded: keys, the admin's kubeconfig (admin.kubeconfig) and the journal",
] as const;
export const PORT_FLAG = ["--port <number>", "with --embedded: TCP port of the API", "6443"] as const;
export const BIND_FLAG = [
  "--bind-address <address>",
  "with --embedded: address to listen on",
  "127.0.0.1",
] as const;
export const ADVERTISE_FLAG = [
  "--advertise-address <address>",
  "with --embedded: address under which members reach the hub; default: the address to listen on",
] as const;
export const SAN_FLAG = [
  "--external-san <name>",
  "with --embedded: further name or address in the certificate; repeatable",
] as const;
