/**
 * A worker for the Open Job Spec that runs under ojs-init. ojs-init talks to the backend: it fetches, heartbeats,
 * acknowledges and shuts down. A {@link dev.ojs.worker.Worker} takes jobs from it over a Unix socket and runs a function
 * of yours for each. Where nothing else is said, null is no argument.
 */
package dev.ojs.worker;
