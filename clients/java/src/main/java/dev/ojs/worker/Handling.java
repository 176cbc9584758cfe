package dev.ojs.worker;

import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Level;

/** One job on its thread: middleware, handler, answer. */
final class Handling implements Runnable {
    private static final int MOST_TRIES = 20;
    private static final long TRY_EVERY_MILLIS = 100;

    private final Session session;
    private final Job job;
    /** For when no answer can be made: made while there is memory. */
    private final Answer spare;

    Handling(Session session, Job job) {
        this.session = session;
        this.job = job;
        this.spare = Answer.broken(job);
    }

    @Override
    public void run() {
        Object result = null;
        Throwable error = null;
        Level logLevel = null;
        try {
            logLevel = JobLog.enter(job);
            job.begin();
            try {
                result = call(session.worker().middlewares(), 0);
            } finally {
                job.end();
            }
        } catch (Throwable thrown) { // whatever it is, the job needs its answer
            error = thrown;
        }
        try {
            answer(result, error);
        } finally {
            JobLog.leave(logLevel);
        }
    }

    private Object call(List<Middleware> middlewares, int at) throws Exception {
        if (at < middlewares.size()) {
            AtomicReference<Runnable> rewind = new AtomicReference<>();
            return middlewares.get(at).around(job, () -> {
                if (rewind.get() == null) {
                    rewind.set(job.mark());
                } else {
                    rewind.get().run();
                }
                return call(middlewares, at + 1);
            });
        }
        return session.worker().handlerOf(job.type()).handle(job);
    }

    private void answer(Object result, Throwable error) {
        Throwable unmade;
        try {
            Throwable end = job.endOf(error); // at first: it says what is saved
            job.flush(end);
            session.answer(job, Answer.of(job, result, end, session.maxFrame));
            return;
        } catch (Throwable thrown) { // out of memory, most likely
            unmade = thrown;
        }
        for (int i = 0; i < MOST_TRIES; i++) {
            try {
                session.answer(job, spare);
                Session.LOG.severe(
                        "job " + Failures.oneLine(job.id()) + ": its answer cannot be made: " + Failures.name(unmade));
                return;
            } catch (Throwable again) { // memory may come back: another job ends
                ProcessEnd.sleep(TRY_EVERY_MILLIS);
            }
        }
        session.giveUp();
    }
}
