package dev.ojs.worker;

/** Takes the frames of the worker: a socket, or a test of a handler. */
interface Link {
    /** What a frame is about. A newer frame replaces one of the same topic that still waits. */
    record Topic(Object owner, String kind) {}

    /** Sends a frame, now or as soon as there is room. */
    void send(Topic topic, byte[] frame);

    /** Drops a frame that still waits. */
    default void withdraw(Topic topic) {}

    /**
     * Waits until the kernel has the frame of this topic. An interrupt does not end the wait.
     *
     * @throws OjsException if the connection is closed.
     */
    default void awaitSent(Topic topic) {}

    /** Lets the thread of the connection look whether the worker has ended. */
    default void wakeUp() {}
}
