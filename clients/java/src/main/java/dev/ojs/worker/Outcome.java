package dev.ojs.worker;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** What the backend would be told about a job that {@link Worker#perform(String, Object...)} has done. */
public final class Outcome {
    private final Map<String, Object> answer;
    private final List<Object> checkpoints;
    private final List<Map<String, Object>> progress;
    private final int heartbeats;

    Outcome(Map<String, Object> answer, List<Object> checkpoints, List<Map<String, Object>> progress, int heartbeats) {
        this.answer = answer;
        this.checkpoints = Collections.unmodifiableList(checkpoints);
        this.progress = Collections.unmodifiableList(progress);
        this.heartbeats = heartbeats;
    }

    /** {@code ack}, {@code fail} or {@code release}. */
    public String outcome() {
        return (String) answer.get("type");
    }

    /** Of an ack: the result, read back from JSON; null if there is none. */
    public Object result() {
        return answer.get("result");
    }

    /**
     * The same as a type of yours.
     *
     * @param <T> that type.
     * @param type that type; see {@link Json#convert}.
     * @return null if there is no result.
     * @throws JsonException if it does not fit.
     */
    public <T> T result(Class<T> type) {
        return Json.convert(result(), type);
    }

    /** Of a fail: code, type, message, retryable, details, backtrace; empty for others. */
    @SuppressWarnings("unchecked")
    public Map<String, Object> error() {
        return answer.get("error") instanceof Map<?, ?> error ? (Map<String, Object>) error : Map.of();
    }

    /** Of a release: the reason; none for others, and where it has none. */
    public Optional<String> reason() {
        return Optional.ofNullable((String) answer.get("reason"));
    }

    /** The checkpoints, oldest first; of very many the newest 10000. */
    public List<Object> checkpoints() {
        return checkpoints;
    }

    /** The last checkpoint, for {@link Delivery#checkpoint}; null if there was none. */
    public Object checkpoint() {
        return checkpoints.isEmpty() ? null : checkpoints.get(checkpoints.size() - 1);
    }

    /** What the handler said about its progress ({@code progress, message, data}), oldest first; of very many the newest. */
    public List<Map<String, Object>> progress() {
        return progress;
    }

    /** How many heartbeats the handler sent. */
    public int heartbeats() {
        return heartbeats;
    }

    @Override
    public String toString() {
        return Json.write(answer);
    }
}
