package dev.ojs.worker;

import java.util.concurrent.TimeUnit;

/** A checkpoint on its way out. */
final class Saving {
    private final Transport transport;
    private final Outgoing item;
    private final byte[] frame;

    Saving(Transport transport, Outgoing item, byte[] frame) {
        this.transport = transport;
        this.item = item;
        this.frame = frame;
    }

    /**
     * Returns when it is written, or a newer one in its place.
     *
     * @throws OjsException.Stalled if ojs-init did not read for 10 s: then this one is taken back, a newer one is not.
     * @throws OjsException.ConnectionLost if ojs-init is gone.
     */
    void await() {
        boolean isOver = awaitDone();
        if (!isOver) {
            transport.withdraw(item, frame);
        }
        if (item.isWritten) {
            return;
        }
        if (isOver && !item.isWithdrawn) {
            throw new OjsException.ConnectionLost();
        }
        throw new OjsException.Stalled("ojs-init has not read for 10 s: the checkpoint is not saved");
    }

    private boolean awaitDone() {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Session.WRITE_TIMEOUT_MILLIS);
        boolean isInterrupted = false;
        try {
            while (true) {
                try {
                    return item.done.await(end - System.nanoTime(), TimeUnit.NANOSECONDS);
                } catch (InterruptedException interrupted) {
                    // As a cancel brings it: no reason not to save.
                    isInterrupted = true;
                }
            }
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
