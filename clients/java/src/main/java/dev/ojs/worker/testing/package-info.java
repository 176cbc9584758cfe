/** The development server for tests of a whole system. Handlers alone are tested with {@code Worker.perform}. */
package dev.ojs.worker.testing;
