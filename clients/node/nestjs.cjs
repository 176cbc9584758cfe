// Handlers as methods of NestJS providers.
"use strict";

require("reflect-metadata");
const { Inject, Module } = require("@nestjs/common");
const { ModulesContainer } = require("@nestjs/core");
const { Worker } = require("./ojs-worker.cjs");

const JOBS = "ojs-worker:jobs";

/**
 * Makes a method of a provider the handler of a job type.
 * @param {string | string[]} types
 * @param {{ args?: any[] }} [options] as those of `worker.job`
 * @returns {MethodDecorator}
 */
function OjsJob(types, options = {}) {
  return (_target, _name, descriptor) => {
    const method = /** @type {any} */ (descriptor.value);
    const before = Reflect.getMetadata(JOBS, method) ?? [];
    Reflect.defineMetadata(JOBS, [...before, { types, options }], method);
  };
}

/**
 * The methods of an instance, those of its base classes included.
 * @param {any} instance
 * @returns {string[]}
 */
function methodsOf(instance) {
  const names = new Set();
  for (let at = Object.getPrototypeOf(instance); at && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof value === "function" && name !== "constructor") names.add(name);
    }
  }
  return [...names];
}

/** @param {any} worker @param {any} wrapper of a provider */
function register(worker, wrapper) {
  const { instance, name } = wrapper;
  if (typeof instance !== "object" || instance === null) return;
  for (const method of methodsOf(instance)) {
    for (const { types, options } of Reflect.getMetadata(JOBS, instance[method]) ?? []) {
      if (!wrapper.isDependencyTreeStatic()) {
        throw new TypeError(`@OjsJob("${types}"): ${name} is request-scoped; a handler needs a provider of the default scope`);
      }
      const handler = instance[method].bind(instance);
      if (options.args === undefined) worker.job(types, handler);
      else worker.job(types, options, handler);
    }
  }
}

/**
 * Provides the `Worker`, and registers each method with `@OjsJob` when the application is
 * initialised.
 */
class OjsModule {
  /** @param {any} worker @param {any} modules */
  constructor(worker, modules) {
    this.worker = worker;
    this.modules = modules;
  }

  /** @param {import("./ojs-worker.cjs").WorkerOptions} [options] */
  static forRoot(options = {}) {
    const provider = { provide: Worker, useFactory: () => new Worker(options) };
    return { module: OjsModule, global: true, providers: [provider], exports: [Worker] };
  }

  onModuleInit() {
    const wrappers = new Set();
    for (const module of this.modules.values()) {
      for (const wrapper of [...module.providers.values(), ...module.controllers.values()]) {
        if (!wrapper.isAlias) wrappers.add(wrapper);
      }
    }
    for (const wrapper of wrappers) register(this.worker, wrapper);
  }
}

Inject(Worker)(OjsModule, undefined, 0);
Inject(ModulesContainer)(OjsModule, undefined, 1);
Module({})(OjsModule);

/**
 * Works until ojs-init says that it is enough, closes the application, and ends the process. Nest's
 * own listeners for signals are removed: they would close the application while jobs run.
 * @param {any} app of NestFactory.createApplicationContext, or create
 * @returns {Promise<never>}
 */
async function runWorker(app) {
  await app.init();
  app.unsubscribeFromProcessSignals?.();
  const status = await app.get(Worker).run();
  await app.close();
  return process.exit(status);
}

module.exports = { OjsJob, OjsModule, runWorker };
