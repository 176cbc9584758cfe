package dev.ojs.worker;

import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;

/** Serves the connection, and knows when to end. */
final class Runner {
    /** How long handlers get to end when ojs-init has closed the connection. */
    private static final long EOF_GRACE_MILLIS = 1000;
    /** How long the program gets to end by itself after its worker: a thread of its own may keep it alive for ever. */
    private static final long LINGER_MILLIS = 500;
    private static final int CUT_OFF_STATUS = 128 + 15;

    private final Options options;
    private final Link link;
    private final Session session;
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile RuntimeException error;
    private volatile boolean isStopAsked;
    private volatile boolean isSignalled;
    private boolean isStopBegun;
    private Outgoing lastReady;
    private long settledAt;
    private long cutOffAt;
    private long flushingSince;

    private Runner(Worker worker, Link link) {
        this.options = worker.options();
        this.link = link;
        this.session = new Session(worker, link, worker::execute, Level.INFO);
    }

    /** Connects. The signals are taken over before that. */
    static Runner connect(Worker worker, String path) {
        Runner[] later = new Runner[1];
        boolean[] isEarly = new boolean[1];
        Runnable onSignal = () -> {
            synchronized (later) {
                isEarly[0] = true;
                if (later[0] == null) {
                    return;
                }
            }
            later[0].onSignal();
        };
        Runnable giveBack = worker.options().handlesSignals ? Signals.handle(onSignal, "TERM", "INT") : () -> {};
        if (giveBack == null) {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                synchronized (later) {
                    if (later[0] == null) {
                        return;
                    }
                }
                later[0].onShutdownHook();
            }, "ojs-shutdown"));
        }
        Link link;
        try {
            link = new Link(path);
        } catch (IOException | RuntimeException refused) {
            if (giveBack != null) {
                giveBack.run();
            }
            throw new OjsException.NotUnderOjsInit("cannot connect to ojs-init at " + path + " (" + Worker.ENV_SOCKET
                    + "): " + refused.getMessage(), refused);
        }
        synchronized (later) {
            later[0] = new Runner(worker, link);
            later[0].isSignalled = isEarly[0];
        }
        return later[0];
    }

    Session session() {
        return session;
    }

    void stop() {
        isStopAsked = true;
        link.wake();
    }

    /** Until the worker has ended. An interrupt of the caller is a {@link #stop}. */
    void run() {
        ProcessEnd.daemon("ojs-socket", this::serve);
        boolean isInterrupted = false;
        while (true) {
            try {
                ended.await();
                break;
            } catch (InterruptedException interrupted) {
                isInterrupted = true;
                stop();
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
        if (error != null) {
            throw error;
        }
    }

    /** On a thread that the JVM makes for each signal. */
    private void onSignal() {
        isSignalled = true;
        link.wake();
        try {
            ended.await();
            if (error == null) {
                // Mostly the program ends by itself. One that a thread of its own keeps alive would get SIGKILL.
                ProcessEnd.after(LINGER_MILLIS, 0);
            }
        } catch (InterruptedException nobodyDoes) {
            Thread.currentThread().interrupt();
        }
    }

    /** The process ends when this returns, with the status 143. */
    private void onShutdownHook() {
        isSignalled = true;
        link.wake();
        try {
            ended.await(options.stopGrace.toMillis() + LINGER_MILLIS / 2, TimeUnit.MILLISECONDS);
        } catch (InterruptedException nobodyDoes) {
            Thread.currentThread().interrupt();
        }
    }

    // On the thread of the socket

    private void serve() {
        try {
            serveUntilEnd();
            if (error != null && options.handlesSignals) {
                ProcessEnd.after(LINGER_MILLIS, 1);
            }
        } finally { // also when there is no memory for any of that
            link.beginLeaving();
            ended.countDown();
            stayConnected();
        }
    }

    private void serveUntilEnd() {
        try {
            while (!mayEnd()) {
                round(patience());
            }
        } catch (RuntimeException | IOException | Error failed) {
            error = failed instanceof OjsException known ? known
                    : failed instanceof OutOfMemoryError ? Session.NO_MEMORY // there may be none for a new one
                    : new OjsException("the worker failed: " + failed, failed);
            if (failed instanceof OjsException.ConnectionLost) {
                onEof();
            }
        }
    }

    private void round(long patience) throws IOException {
        for (byte[] line : link.round(patience)) {
            session.onLine(line);
            if (session.fatal != null) {
                break;
            }
        }
        if (session.fatal != null) {
            throw session.fatal;
        }
        link.setMaxFrame(session.maxFrame);
        if (link.isEof()) {
            throw new OjsException.ConnectionLost();
        }
    }

    private boolean mayEnd() {
        long now = System.nanoTime();
        if (isSignalled) {
            // ojs-init sends SIGTERM to those that are idle, and to those that it gives up on.
            isStopAsked = true;
            if (cutOffAt == 0) {
                cutOffAt = now + options.stopGrace.toNanos();
                session.cancelAll("shutdown");
            }
        }
        if (isStopAsked && !isStopBegun) {
            isStopBegun = true;
            lastReady = session.beginStop();
        }
        if (!session.holdsNothing()) {
            if (cutOffAt != 0 && now - cutOffAt >= 0) {
                Session.LOG.severe(session.heldJobs().size() + " handlers have not ended within "
                        + options.stopGrace.toMillis() + " ms of a signal");
                link.beginLeaving();
                ProcessEnd.now(CUT_OFF_STATUS);
                cutOffAt = now + TimeUnit.DAYS.toNanos(1);
            }
            flushingSince = 0;
            return false;
        }
        return session.isEnding() && isFlushed(now) && isSettled(now);
    }

    private boolean isFlushed(long now) {
        if (link.isFlushed()) {
            flushingSince = 0;
            return true;
        }
        if (flushingSince == 0) {
            flushingSince = now;
        }
        if (now - flushingSince >= TimeUnit.MILLISECONDS.toNanos(Session.WRITE_TIMEOUT_MILLIS)) {
            throw new OjsException.Stalled("ojs-init has not read for 10 s; ending with answers that it has not got");
        }
        return false;
    }

    /** After a stop of our own a job may still be on its way. */
    private boolean isSettled(long now) {
        if (lastReady == null || session.isTerminating()) {
            return true;
        }
        if (settledAt == 0) {
            settledAt = now + TimeUnit.MILLISECONDS.toNanos(Session.SETTLE_MILLIS);
        }
        return now - settledAt >= 0;
    }

    /** How long nothing needs to happen by itself, in milliseconds; negative: for ever. */
    private long patience() {
        if (!session.isEnding()) {
            return -1;
        }
        long now = System.nanoTime();
        if (!session.holdsNothing()) {
            return cutOffAt == 0 ? -1 : millisUntil(cutOffAt, now);
        }
        if (flushingSince != 0) {
            return millisUntil(flushingSince + TimeUnit.MILLISECONDS.toNanos(Session.WRITE_TIMEOUT_MILLIS), now);
        }
        return settledAt == 0 ? 0 : millisUntil(settledAt, now);
    }

    private static long millisUntil(long then, long now) {
        return Math.max(0, TimeUnit.NANOSECONDS.toMillis(then - now) + 1);
    }

    private void onEof() {
        link.close();
        int held = session.cancelAll("lost");
        if (held == 0) {
            if (session.isEnding()) {
                error = null;
            }
            return;
        }
        Session.LOG.severe("ojs-init has closed the connection: " + held + " jobs are abandoned");
        try {
            if (!session.awaitNothingHeld(EOF_GRACE_MILLIS)) {
                Session.LOG.severe("handlers have not ended within " + EOF_GRACE_MILLIS + " ms of that");
                if (options.handlesSignals) {
                    ProcessEnd.now(1);
                }
            }
        } catch (InterruptedException nobodyDoes) {
            Thread.currentThread().interrupt();
        }
    }

    /** A connection stays open, and pings are answered, until the process ends: it may take its time. */
    private void stayConnected() {
        try {
            while (!link.isEof() && session.fatal == null) {
                round(-1);
            }
        } catch (RuntimeException | IOException gone) {
            Session.LOG.fine("the connection is over: " + gone.getMessage());
        } finally {
            link.close();
        }
    }
}
