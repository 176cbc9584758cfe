import adapter from "./opentelemetry.cjs";

export const { opentelemetry, traceMeta } = adapter;
