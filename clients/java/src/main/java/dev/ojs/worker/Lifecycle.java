package dev.ojs.worker;

import java.time.Duration;
import java.util.Optional;

/** The state that ojs-init has announced, and when a shutdown cancels what is left. */
final class Lifecycle {
    volatile String state = "running";
    private volatile Long stopsAt;

    boolean isTerminating() { return state.equals("terminate"); }

    void stopAfter(long millis) { stopsAt = System.nanoTime() + Duration.ofMillis(millis).toNanos(); }

    Optional<Duration> remaining() {
        Long at = stopsAt;
        return at == null ? Optional.empty() : Optional.of(Duration.ofNanos(Math.max(0, at - System.nanoTime())));
    }
}
