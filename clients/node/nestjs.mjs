import adapter from "./nestjs.cjs";

export const { OjsJob, OjsModule, runWorker } = adapter;
