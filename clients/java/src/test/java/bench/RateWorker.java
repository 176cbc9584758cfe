package bench;

import dev.ojs.worker.Worker;

/** A worker that does nothing, as fast as it can. */
public final class RateWorker {
    private RateWorker() {}

    /** Runs it. */
    public static void main(String[] args) {
        new Worker().job("bench.noop", job -> null).run();
    }
}
