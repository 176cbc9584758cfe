/**
 * A worker for the Open Job Spec. ojs-init starts the program and hands it jobs over a Unix socket.
 *
 * <p>Begin with {@link dev.ojs.worker.Worker}.
 */
package dev.ojs.worker;
