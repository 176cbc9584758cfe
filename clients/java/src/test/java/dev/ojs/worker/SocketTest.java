package dev.ojs.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A worker of this process behind a socket. play.py checks what needs a process of its own. */
@Timeout(60)
class SocketTest {
    private FakeInit init;
    private final CountDownLatch isRunning = new CountDownLatch(1);

    @BeforeEach
    void listen() throws Exception {
        init = new FakeInit();
    }

    @AfterEach
    void close() throws Exception {
        init.close();
    }

    @Test
    void readyHasTheConcurrencyOfHelloAndTheTypes() throws Exception {
        JsonNode ready = init.start(new Worker(init.options()).job("a", job -> null));
        assertEquals(10, ready.get("concurrency").asInt());
        assertEquals("a", ready.get("types").get(0).asText());
    }

    @Test
    void aHandlerOfEveryTypeNamesNoTypes() throws Exception {
        JsonNode ready = init.start(new Worker(init.options().concurrency(3)).job("*", job -> job.type()));
        assertEquals(3, ready.get("concurrency").asInt());
        assertFalse(ready.has("types"));
        init.job("1", "anything", "[]");
        assertEquals("anything", init.next().get("result").asText());
    }

    @Test
    void aCancelInterruptsTheHandlerAndTheJobIsReleased() throws Exception {
        init.start(new Worker(init.options()).job("a", job -> {
            isRunning.countDown();
            Thread.sleep(3_600_000);
            return null;
        }));
        init.job("1", "a", "[]");
        isRunning.await();
        init.cancel("1", "shutdown");
        JsonNode answer = init.next();
        assertEquals("release", answer.get("type").asText());
        assertEquals("shutdown", answer.get("reason").asText());
    }

    @Test
    void withoutInterruptsACancelEndsTheSleepOfTheJobAlone() throws Exception {
        init.start(new Worker(init.options().interrupt(false)).job("a", job -> {
            isRunning.countDown();
            try {
                job.sleep(java.time.Duration.ofHours(1));
            } catch (Cancelled cancelled) {
                return Thread.currentThread().isInterrupted();
            }
            return null;
        }));
        init.job("1", "a", "[]");
        isRunning.await();
        init.cancel("1", "cancelled");
        assertFalse(init.next().get("result").asBoolean());
    }

    @Test
    void aCheckpointAfterTheInterruptOfACancelIsStillSent() throws Exception {
        init.start(new Worker(init.options()).job("a", job -> {
            isRunning.countDown();
            try {
                Thread.sleep(3_600_000);
            } catch (InterruptedException cancelled) {
                Thread.currentThread().interrupt();
            }
            job.checkpoint(7);
            job.throwIfCancelled();
            return null;
        }));
        init.job("1", "a", "[]");
        isRunning.await();
        init.cancel("1", "timeout");
        assertEquals(7, init.next().get("state").asInt());
        assertEquals("timeout", init.next().get("error").get("code").asText());
    }

    @Test
    void whileNobodyReadsOnlyTheNewestProgressIsKept() throws Exception {
        int most = 200_000;
        init.start(new Worker(init.options()).job("a", job -> {
            for (int i = 1; i <= most; i++) {
                job.progress(0.5, null, i);
            }
            return "x".repeat(1_000_000);
        }));
        init.job("1", "a", "[]");
        init.job("2", "none", "[]"); // the reader goes on although the socket is full
        int progress = 0;
        int answers = 0;
        while (answers < 2) {
            JsonNode frame = init.next();
            progress += frame.get("type").asText().equals("progress") ? 1 : 0;
            answers += List.of("ack", "fail").contains(frame.get("type").asText()) ? 1 : 0;
        }
        assertTrue(progress < most, progress + " reports");
    }

    @Test
    void aLogThatNobodyReadsStopsNoPongAndNoCancel() throws Exception {
        CountDownLatch isRead = new CountDownLatch(1);
        Handler blocked = new Handler() {
            @Override public void publish(LogRecord line) {
                try {
                    isRead.await();
                } catch (InterruptedException over) {
                    Thread.currentThread().interrupt();
                }
            }
            @Override public void flush() {}
            @Override public void close() {}
        };
        Logger log = Logger.getLogger("dev.ojs.worker");
        log.addHandler(blocked);
        try {
            init.start(new Worker(init.options()).job("a", job -> { job.awaitCancelled(); return null; }));
            init.job("1", "a", "[]");
            for (int i = 0; i < 1000; i++) { init.send("{'type':'lifecycle','state':'quiet','reason':'server'}"); }
            init.send("{'type':'ping','id':1}");
            assertEquals("pong", init.next().get("type").asText());
            init.cancel("1", "cancelled");
            assertEquals("1", init.next().get("job_id").asText());
        } finally {
            log.removeHandler(blocked);
            isRead.countDown();
        }
    }

    @Test
    void stopFinishesTheHeldJobsAndTakesNoMore() throws Exception {
        CountDownLatch mayEnd = new CountDownLatch(1);
        Worker worker = new Worker(init.options()).job("a", job -> {
            isRunning.countDown();
            mayEnd.await();
            return "done";
        });
        init.start(worker);
        init.job("1", "a", "[]");
        isRunning.await();
        worker.stop();
        init.readStop();
        mayEnd.countDown();
        assertEquals("done", init.next().get("result").asText());
        assertNull(init.ending());
    }

    @Test
    void anInterruptOfTheThreadInRunIsAStop() throws Exception {
        init.start(new Worker(init.options()).job("a", job -> null));
        init.running.interrupt();
        init.readStop();
        assertNull(init.ending());
    }

    @Test
    void aClosedSocketCancelsTheHandlersAndRunThrows() throws Exception {
        CountDownLatch isLost = new CountDownLatch(1);
        init.start(new Worker(init.options()).job("a", job -> {
            isRunning.countDown();
            job.awaitCancelled();
            assertEquals("lost", job.cancelReason().orElseThrow());
            isLost.countDown();
            return null;
        }));
        init.job("1", "a", "[]");
        isRunning.await();
        init.close();
        isLost.await();
        assertTrue(init.ending().getMessage().contains("jobs that are lost: 1"));
    }

    @Test
    void anUnreadableFrameIsIgnoredOrFailsItsJob() throws Exception {
        init.start(new Worker(init.options()).job("a", job -> job.args()));
        init.send("{'type':");
        init.send("{'type':'job','job_id':'9','job':{'specversion':'1.0','n':-1.5,'id':'9','args':[oh]}}");
        JsonNode failure = init.next();
        assertEquals("9", failure.get("job_id").asText());
        assertFalse(failure.get("error").get("retryable").asBoolean());
        init.job("1", "a", "[1]");
        assertEquals("ack", init.next().get("type").asText());
    }

    @Test
    void withoutASocketTheErrorSaysHowToStartTheWorker() {
        String message = assertThrows(OjsException.class, () -> new Worker().job("a", job -> null).run()).getMessage();
        assertTrue(message.contains("Run it as: ojs-init -- java"), message);
        Worker lonely = new Worker(new Options().handleSignals(false).socketPath("/nowhere/s")).job("a", job -> null);
        assertTrue(assertThrows(OjsException.class, lonely::run).getMessage().contains("/nowhere/s"));
    }

    @Test
    void mistakesInTheSetupAreErrors() {
        assertThrows(IllegalArgumentException.class, () -> new Options().concurrency(0));
        Worker worker = new Worker(init.options());
        assertThrows(OjsException.class, worker::run);
        worker.job("a", job -> null);
        assertThrows(IllegalArgumentException.class, () -> worker.job("a", job -> null));
    }
}
