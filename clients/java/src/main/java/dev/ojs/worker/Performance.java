package dev.ojs.worker;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;

/** Plays ojs-init for one job without a socket, with the frames of the socket. */
final class Performance implements Link {
    private final Delivery delivery;
    private final Json json;
    private final Session session;
    private final CompletableFuture<Map<String, Object>> answer = new CompletableFuture<>();

    // Guarded by this, and by the answer, after which nothing comes.
    private final List<Object> checkpoints = new ArrayList<>();
    private final List<Map<String, Object>> progress = new ArrayList<>();
    private int heartbeats;

    Performance(Registry registry, Delivery delivery) {
        this.delivery = delivery;
        this.json = registry.json;
        this.session = new Session(registry, this);
    }

    @SuppressWarnings("unchecked")
    Outcome run(String type, List<Object> args) {
        Map<String, Object> envelope = new HashMap<>(Map.of("id", "test-job", "type", type, "queue", "default",
                "attempt", 1, "args", args));
        envelope.putAll(delivery.envelope);
        Map<String, Object> fields = new HashMap<>(Map.of("job", envelope));
        if (delivery.checkpoint != null) { fields.put("checkpoint", delivery.checkpoint); }
        // A shutdown from the start is known before the handler begins.
        delivery.events.stream().filter(Performance::isFromStart).forEach(event -> say("lifecycle", null, event.fields()));
        say("job", null, fields);
        try {
            plan(envelope.get("id").toString());
            Map<String, Object> told = answer.get(delivery.patience.toNanos(), TimeUnit.NANOSECONDS);
            return new Outcome((String) told.get("type"), told.get("result"),
                    (Map<String, Object>) told.getOrDefault("error", Map.of()),
                    Optional.ofNullable((String) told.get("reason")), checkpoints, progress, heartbeats);
        } catch (TimeoutException late) {
            throw new OjsException("the handler did not end within " + delivery.patience + ": see why, or use patience");
        } catch (InterruptedException | ExecutionException interrupted) {
            Thread.currentThread().interrupt();
            throw new OjsException("interrupted while a job was performed");
        } finally {
            session.cancelAll("lost");
        }
    }

    private static boolean isFromStart(Delivery.Event event) {
        return event.after().isZero() && event.type().equals("lifecycle");
    }

    private void plan(String id) throws InterruptedException {
        Job job = session.heldJob(id);
        if (job == null) { return; } // it was refused
        job.awaitBegun(); // one that is cancelled before that never comes to its handler
        delivery.events.stream().filter(event -> !isFromStart(event)).forEach(event -> CompletableFuture
                .delayedExecutor(event.after().toMillis(), TimeUnit.MILLISECONDS)
                .execute(() -> say(event.type(), id, event.fields())));
    }

    private void say(String type, String jobId, Map<String, Object> fields) {
        session.onLine(ByteBuffer.wrap(json.frame(type, jobId, fields)));
    }

    // What the worker sends

    @Override
    @SuppressWarnings("unchecked")
    public synchronized void send(Topic topic, byte[] frame) {
        Map<String, Object> told;
        try {
            told = json.mapper.readValue(frame, Map.class);
        } catch (IOException never) {
            throw new IllegalStateException(never);
        }
        switch ((String) told.get("type")) {
            case "checkpoint" -> checkpoints.add(told.get("state"));
            case "progress" -> {
                told.keySet().removeAll(List.of("type", "job_id"));
                progress.add(told);
            }
            case "heartbeat" -> heartbeats++;
            default -> answer.complete(told);
        }
    }
}
