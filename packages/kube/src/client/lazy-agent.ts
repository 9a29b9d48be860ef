/** A bundler gives `import()` of a CommonJS package a default export only, and of a module its names. */
export { Agent } from "undici";
export { createSecureContext } from "node:tls";
