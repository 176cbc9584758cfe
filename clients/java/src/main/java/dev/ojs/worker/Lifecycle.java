package dev.ojs.worker;

import java.time.Duration;
import java.util.Optional;

/** What ojs-init has announced: its state, when a shutdown cancels what is left, the longest frame. */
final class Lifecycle {
    volatile String state = "running";
    /** In bytes, without the line break. */
    volatile int maxFrame = Integer.MAX_VALUE;
    private volatile Long stopsAt;

    boolean isTerminating() { return state.equals("terminate"); }

    void stopAfter(long millis) { stopsAt = System.nanoTime() + Duration.ofMillis(millis).toNanos(); }

    Optional<Duration> remaining() {
        Long at = stopsAt;
        return at == null ? Optional.empty() : Optional.of(Duration.ofNanos(Math.max(0, at - System.nanoTime())));
    }
}
