package dev.ojs.worker;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.logging.Level;

/** What ojs-init says. */
final class Inbox {
    private static final int MOST_SAID = 100;

    private final Session session;
    private final Set<String> said = new HashSet<>();

    Inbox(Session session) {
        this.session = session;
    }

    void onLine(byte[] line) {
        String text = Frames.decode(line);
        if (text == null) {
            Session.LOG.warning("a frame from ojs-init is ignored: it is not UTF-8");
            return;
        }
        if (text.isBlank()) {
            return;
        }
        JsonReader reader = new JsonReader(text);
        Map<String, Object> frame;
        try {
            frame = reader.readFrame("job");
        } catch (JsonException error) {
            onUnreadable(text, error);
            return;
        }
        Object type = frame.get("type");
        try {
            onFrame(type instanceof String known ? known : "", frame, reader.span());
        } catch (JsonException error) {
            Session.LOG.warning("a frame \"" + Failures.oneLine(type) + "\" from ojs-init is ignored: "
                    + error.getMessage());
        }
    }

    private void onFrame(String type, Map<String, Object> frame, String jobText) {
        switch (type) {
            case "job" -> onJob(frame, jobText);
            case "ping" -> session.transport().send(Frames.frame("pong", null, "id", need(frame, "id", Long.class)), true);
            case "cancel" -> session.cancel(need(frame, "job_id", String.class),
                    Failures.clean(need(frame, "reason", String.class), 200));
            case "lifecycle" -> session.lifecycle(need(frame, "state", String.class), take(frame, "reason", String.class),
                    take(frame, "remaining_ms", Number.class));
            case "hello" -> onHello(frame);
            case "ok" -> session.forgetAnswer(need(frame, "job_id", String.class), need(frame, "for", String.class));
            case "error" -> onError(need(frame, "code", String.class), take(frame, "message", String.class),
                    take(frame, "job_id", String.class));
            default -> Session.LOG.fine("a frame of an unknown type is ignored");
        }
    }

    /** A member of a frame; null if it is not there, or something else. */
    private static <T> T take(Map<String, Object> frame, String name, Class<T> type) {
        Object value = frame.get(name);
        return type.isInstance(value) ? type.cast(value) : null;
    }

    private static <T> T need(Map<String, Object> frame, String name, Class<T> type) {
        T value = take(frame, name, type);
        if (value == null) {
            throw new JsonException("`" + name + "` is missing or of a wrong type");
        }
        return value;
    }

    /** Only our parser's own limits can be in the way: then the job cannot be done here. */
    private void onUnreadable(String text, JsonException error) {
        String jobId = JsonReader.salvageJobId(text);
        Session.LOG.warning("a frame from ojs-init cannot be read: " + error.getMessage());
        if (jobId != null && !session.isHeldAlready(jobId)) {
            session.refuse(jobId, "invalid_job", "the job cannot be read by Java: " + error.getMessage(), false);
        }
    }

    private void onHello(Map<String, Object> frame) {
        Object protocol = frame.get("protocol");
        if (!Long.valueOf(Frames.PROTOCOL).equals(protocol)) {
            session.fatal = new OjsException.Protocol("ojs-init speaks version " + Failures.oneLine(protocol)
                    + " of the protocol, this is version " + Frames.PROTOCOL);
            return;
        }
        if (session.isGreeted) {
            return;
        }
        session.isGreeted = true;
        session.workerId = take(frame, "worker_id", String.class);
        Number maxFrame = take(frame, "max_frame", Number.class);
        if (maxFrame != null) {
            session.maxFrame = (int) Math.min(maxFrame.longValue(), Integer.MAX_VALUE / 2);
        }
        String state = take(frame, "state", String.class);
        session.lifecycle(state == null ? "running" : state, null, null);
        Number offered = take(frame, "concurrency", Number.class);
        int most = offered == null ? 1 : (int) Math.max(1, Math.min(offered.longValue(), Options.MAX_CONCURRENCY));
        int wanted = session.worker().options().concurrency;
        session.concurrency = wanted == 0 ? most : Math.min(wanted, most);
        if (!session.isEnding()) {
            try {
                session.sendReady(session.concurrency);
            } catch (OjsException.Protocol tooLong) {
                session.fatal = tooLong;
            }
        }
    }

    @SuppressWarnings("unchecked")
    private void onJob(Map<String, Object> frame, String text) {
        Map<String, Object> envelope = (Map<String, Object>) need(frame, "job", Map.class);
        String jobId = need(envelope, "id", String.class);
        if (session.isHeldAlready(jobId)) {
            return;
        }
        if (session.isEnding()) {
            // On its way when we said that we take no more.
            session.transport().send(Frames.frame("release", jobId, "reason", "the worker is ending"), false);
            return;
        }
        String type = take(envelope, "type", String.class);
        if (type == null) {
            // As one without a handler: another worker may know what to do with it.
            session.refuse(jobId, "handler_not_found", "the job has no type", true);
        } else if (session.worker().handlerOf(type) == null) {
            session.refuse(jobId, "handler_not_found",
                    "this worker has no handler for " + Failures.clean(type, 200), true);
        } else {
            take(jobId, envelope, text, frame.get("checkpoint"));
        }
    }

    /** Whatever is wrong with a job whose id is known, it gets an answer: without one it is held for ever. */
    private void take(String jobId, Map<String, Object> envelope, String text, Object checkpoint) {
        try {
            session.take(new Job(session, envelope, text, checkpoint));
        } catch (RuntimeException fault) {
            session.refuse(jobId, "invalid_job", "the job cannot be taken by Java: " + Failures.message(fault), true);
        }
    }

    private void onError(String code, String message, String jobId) {
        String text = Failures.oneLine(message);
        String job = "job " + Failures.oneLine(jobId);
        boolean isHeld = jobId != null && session.holds(jobId);
        String answer = jobId == null || isHeld ? null : session.forgetAnswer(jobId, null);
        switch (code) {
            case "lost", "not_held" -> {
                boolean isNews = isHeld || "ack".equals(answer);
                Session.LOG.log(isNews ? Level.WARNING : Level.FINE, job + ": " + code + ": " + text);
                if (isHeld) {
                    session.cancel(jobId, "lost");
                }
            }
            case "unsupported_protocol" -> session.fatal = new OjsException.Protocol(
                    "ojs-init does not speak version " + Frames.PROTOCOL + " of the protocol: " + text);
            case "not_json", "invalid_frame", "frame_too_long" -> {
                Session.LOG.severe("ojs-init refuses a frame (" + job + "): " + code + ": " + text);
                if (List.of("ack", "release").contains(String.valueOf(answer))) {
                    session.refuse(jobId, "handler_error", "the handler's answer was refused: " + code + ": " + text, false);
                }
            }
            case "not_offered" -> {
                if (said.size() < MOST_SAID && said.add(text)) {
                    Session.LOG.warning("the backend does not offer this (said once): " + text);
                }
            }
            default -> {
                boolean isResult = code.equals("refused") && "ack".equals(answer);
                Session.LOG.warning(isResult
                        ? job + ": the backend refuses its result, ojs-init reports it without: " + text
                        : job + ": ojs-init says " + Failures.oneLine(code) + ": " + text);
            }
        }
    }
}
