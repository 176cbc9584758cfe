package dev.ojs.worker;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;

/** Plays ojs-init for one job, without a socket: the frames are the same. */
final class Rehearsal implements Transport {
    private static final int MOST_KEPT = 10_000;
    private static final Set<String> ANSWERS = Set.of("ack", "fail", "release");
    private static final String DEFAULT_ID = "test-job";
    private static final long LOOK_EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

    /** A frame that is due at a time. */
    private record Due(long at, String frame) {}

    private final Worker worker;
    private final Delivery delivery;
    private final Session session;
    private final List<Runnable> handlings = new ArrayList<>();
    private final PriorityQueue<Due> due = new PriorityQueue<>((one, other) -> Long.compare(one.at - other.at, 0));

    // Guarded by this.
    private final LinkedList<Object> checkpoints = new LinkedList<>();
    private final LinkedList<Map<String, Object>> progress = new LinkedList<>();
    private int heartbeats;
    private Map<String, Object> answer;

    Rehearsal(Worker worker, Delivery delivery) {
        this.worker = worker;
        this.delivery = delivery;
        this.session = new Session(worker, this, handlings::add, Level.FINE);
    }

    Outcome perform(String type, List<Object> args) {
        String id = (String) delivery.envelope.getOrDefault("id", DEFAULT_ID);
        say("hello", "protocol", Frames.PROTOCOL, "worker_id", "worker_test", "state", "running", "concurrency", 1,
                "queues", List.of("default"), "max_frame", Frames.DEFAULT_MAX_FRAME);
        if (session.fatal != null) {
            throw session.fatal;
        }
        deliver(id, type, args);
        long start = System.nanoTime();
        plan(start, id);
        List<Job> held = session.heldJobs();
        handlings.forEach(worker::execute);
        await(start, held.isEmpty() ? null : held.get(0));
        synchronized (this) {
            return new Outcome(answer, new ArrayList<>(checkpoints), new ArrayList<>(progress), heartbeats);
        }
    }

    private void deliver(String id, String type, List<Object> args) {
        Map<String, Object> envelope = new LinkedHashMap<>();
        envelope.put("id", id);
        envelope.put("type", type);
        envelope.put("queue", "default");
        envelope.put("attempt", 1);
        envelope.put("args", args);
        envelope.putAll(delivery.envelope);
        if (delivery.checkpoint == null) {
            say("job", "job", envelope);
        } else {
            say("job", "job", envelope, "checkpoint", delivery.checkpoint);
        }
    }

    private void plan(long start, String id) {
        if (delivery.timeout != null) {
            due.add(new Due(after(start, delivery.timeout), cancel(id, "timeout")));
        }
        if (delivery.cancelReason != null) {
            due.add(new Due(after(start, delivery.cancelAfter), cancel(id, delivery.cancelReason)));
        }
        if (delivery.stoppingAfter != null) {
            long at = after(start, delivery.stoppingAfter);
            String stop = frame("lifecycle", "state", "terminate", "reason", "sigterm",
                    "remaining_ms", delivery.stopRemaining.toMillis());
            if (delivery.stoppingAfter.isZero()) {
                session.onLine(stop.getBytes(StandardCharsets.UTF_8)); // before the handler begins
            } else {
                due.add(new Due(at, stop));
            }
            due.add(new Due(after(at, delivery.stopRemaining), cancel(id, "shutdown")));
        }
    }

    private static long after(long start, Duration time) {
        return start + Math.min(Duration.ofDays(3650).toNanos(), TimeUnit.MILLISECONDS.toNanos(time.toMillis()));
    }

    private static String cancel(String id, String reason) {
        return frame("cancel", "job_id", id, "reason", reason, "grace_ms", 1000);
    }

    private static String frame(String type, Object... members) {
        return new String(Frames.frame(type, null, members), StandardCharsets.UTF_8).stripTrailing();
    }

    private void say(String type, Object... members) {
        session.onLine(frame(type, members).getBytes(StandardCharsets.UTF_8));
    }

    /** Says all that is due. */
    private void tell(long now) {
        while (!due.isEmpty() && due.peek().at - now <= 0) {
            session.onLine(due.poll().frame.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Until there is an answer. A job that is cancelled before its handler has begun never comes to it: so that waits. */
    private void await(long start, Job job) {
        long end = after(start, delivery.patience);
        try {
            while (true) {
                long now = System.nanoTime();
                long until = now + LOOK_EVERY_NANOS;
                if (job == null || job.hasBegun()) {
                    tell(now);
                    until = due.isEmpty() ? end : due.peek().at - end < 0 ? due.peek().at : end;
                }
                synchronized (this) {
                    if (answer != null) {
                        return;
                    }
                    if (now - end >= 0) {
                        break;
                    }
                    TimeUnit.NANOSECONDS.timedWait(this, Math.max(until - now, 1));
                }
            }
        } catch (InterruptedException interrupted) {
            session.cancelAll("lost");
            Thread.currentThread().interrupt();
            throw new OjsException("interrupted while a job was performed");
        }
        session.cancelAll("lost");
        throw new OjsException("the handler did not end within " + delivery.patience.toMillis()
                + " ms: give perform a Delivery with another patience, or see why it hangs");
    }

    // Transport: everything is written at once

    @Override
    @SuppressWarnings("unchecked")
    public Outgoing send(byte[] data, boolean isUrgent) {
        Map<String, Object> frame = (Map<String, Object>) Json.parse(new String(data, StandardCharsets.UTF_8));
        String type = (String) frame.remove("type");
        synchronized (this) {
            switch (type) {
                case "checkpoint" -> keep(checkpoints, frame.get("state"));
                case "progress" -> {
                    frame.remove("job_id");
                    keep(progress, frame);
                }
                case "heartbeat" -> heartbeats++;
                default -> {
                    if (ANSWERS.contains(type)) {
                        frame.put("type", type);
                        answer = frame;
                        notifyAll();
                    }
                }
            }
        }
        Outgoing item = new Outgoing(data);
        item.isWaiting = false;
        item.isWritten = true;
        item.done.countDown();
        return item;
    }

    private static <T> void keep(LinkedList<T> list, T item) {
        if (list.size() == MOST_KEPT) {
            list.removeFirst();
        }
        list.add(item);
    }

    @Override
    public boolean replace(Outgoing item, byte[] data) {
        return false;
    }

    @Override
    public void withdraw(Outgoing item, byte[] data) {
        // Nothing waits.
    }

    @Override
    public boolean isFull() {
        return false;
    }

    @Override
    public boolean isFlushed() {
        return true;
    }

    @Override
    public void wake() {
        // Nobody waits for a socket here.
    }
}
