package dev.ojs.worker;

import java.util.concurrent.CountDownLatch;

/** A frame on its way out. All but `done` belongs to the transport's lock. */
final class Outgoing {
    final CountDownLatch done = new CountDownLatch(1);
    byte[] data;
    boolean isWaiting = true;
    volatile boolean isWritten;
    volatile boolean isWithdrawn;

    Outgoing(byte[] data) {
        this.data = data;
    }
}
