/** A bundler gives `import()` of a CommonJS package a default export only, and of a module its names. */
export { default as Pool } from "undici/lib/dispatcher/pool.js";
export { default as buildConnector } from "undici/lib/core/connect.js";
export { createSecureContext } from "node:tls";
