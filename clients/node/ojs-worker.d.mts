export * from "./ojs-worker.cjs";
