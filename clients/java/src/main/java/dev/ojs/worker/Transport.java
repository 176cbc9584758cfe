package dev.ojs.worker;

/** Where frames go: the socket, or a list in tests of handlers. */
interface Transport {
    /**
     * Queues a frame, an urgent one before all others.
     *
     * @throws OjsException.ConnectionLost if nothing can be sent any more.
     */
    Outgoing send(byte[] data, boolean isUrgent);

    /** Puts a newer frame into the place of one of which nothing was written yet; false if it is too late for that. */
    boolean replace(Outgoing item, byte[] data);

    /** Takes back a frame of which nothing was written yet; not one that has replaced this data. */
    void withdraw(Outgoing item, byte[] data);

    /** Whether the other side does not read as fast as we write: then only the newest news of a job is kept. */
    boolean isFull();

    /** Whether nothing waits to be written. */
    boolean isFlushed();

    /** Lets the loop that serves the transport look at everything again. */
    void wake();
}
