package dev.ojs.worker;

import java.util.List;
import java.util.logging.Level;

/** One job on its thread: middleware, handler, answer. */
final class Handling implements Runnable {
    private final Session session;
    private final Job job;

    Handling(Session session, Job job) {
        this.session = session;
        this.job = job;
    }

    @Override
    public void run() {
        Object result = null;
        Throwable error = null;
        Level logLevel = JobLog.enter(job);
        try {
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
            job.flush(error);
            session.answer(job, result, error);
        } finally {
            JobLog.leave(logLevel);
        }
    }

    private Object call(List<Middleware> middlewares, int at) throws Exception {
        if (at < middlewares.size()) {
            return middlewares.get(at).around(job, () -> call(middlewares, at + 1));
        }
        return session.worker().handlerOf(job.type()).handle(job);
    }
}
