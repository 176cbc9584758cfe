export * from "./compat.cjs";
