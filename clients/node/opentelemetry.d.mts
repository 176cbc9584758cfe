export * from "./opentelemetry.cjs";
