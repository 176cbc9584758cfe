package tests;

import dev.ojs.worker.Delivery;
import dev.ojs.worker.Discard;
import dev.ojs.worker.Job;
import dev.ojs.worker.JsonException;
import dev.ojs.worker.OjsException;
import dev.ojs.worker.Options;
import dev.ojs.worker.Outcome;
import dev.ojs.worker.Release;
import dev.ojs.worker.Retry;
import dev.ojs.worker.Worker;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/** Handlers, middleware and outcomes, by way of perform. */
final class PerformTests {
    private PerformTests() {}

    private record Mail(String to, List<Integer> parts) {}

    private record Sent(String id) {}

    private record Address(String to) {
        Address {
            if (!to.contains("@")) {
                throw new IllegalArgumentException("no address: " + to);
            }
        }
    }

    static void run() {
        outcomes();
        results();
        middleware();
        typed();
        refused();
        conditions();
        fields();
    }

    private static Outcome of(dev.ojs.worker.Handler handler, Object... args) {
        return new Worker().job("a", handler).perform("a", args);
    }

    private static void outcomes() {
        Check.that("an error fails the job, retryable, with class, message and backtrace", () -> {
            Map<String, Object> error = of(job -> {
                throw new IllegalStateException("no luck");
            }).error();
            Check.equal(List.of("handler_error", "IllegalStateException", "no luck", true),
                    List.of(error.get("code"), error.get("type"), error.get("message"), error.get("retryable")));
            Check.contains("PerformTests", ((List<?>) error.get("backtrace")).get(0).toString());
        });
        Check.that("an Error, and one without a message, fail the job too, and the worker lives on", () -> {
            Worker worker = new Worker().job("a", job -> {
                throw new StackOverflowError();
            }).job("b", job -> "alive");
            Check.equal("StackOverflowError", worker.perform("a").error().get("message"));
            Check.equal("alive", worker.perform("b").result());
        });
        Check.that("Retry says what went wrong in the program's words, and when another attempt makes sense", () -> {
            Map<String, Object> error = of(job -> {
                throw new Retry("busy").after(Duration.ofMillis(1500)).code("x_busy").type("Busy").details(Map.of("n", 1));
            }).error();
            Check.json("{\"code\":\"x_busy\",\"retryable\":true,\"type\":\"Busy\",\"message\":\"busy\","
                    + "\"details\":{\"retry_after_ms\":1500,\"n\":1}}", error);
        });
        Check.that("the cause of a Retry gives backtrace and, where there is none, type and message", () -> {
            Map<String, Object> error = of(job -> {
                throw new Retry(null).cause(new IllegalArgumentException("deep"));
            }).error();
            Check.equal(List.of("IllegalArgumentException", "deep"), List.of(error.get("type"), error.get("message")));
            Check.holds(error.get("backtrace") instanceof List, "a backtrace");
        });
        Check.that("Discard, Retry and Release count as well where something has wrapped them", () -> {
            Map<String, Object> error = of(job -> CompletableFuture.supplyAsync(() -> {
                throw new Discard("bad");
            }).join()).error();
            Check.equal(List.of("bad", false), List.of(error.get("message"), error.get("retryable")));
            Check.equal("x_busy", of(job -> {
                throw new IllegalStateException(new Retry("busy").code("x_busy"));
            }).error().get("code"));
            Check.equal("later", of(job -> {
                throw new IllegalStateException(new RuntimeException(new Release("later")));
            }).reason().orElse(null));
        });
        Check.that("Discard is not retryable", () -> Check.equal(false, of(job -> {
            throw new Discard("never");
        }).error().get("retryable")));
        Check.that("Release gives the job back with its reason, or without one", () -> {
            Check.json("{\"job_id\":\"test-job\",\"reason\":\"later\",\"type\":\"release\"}",
                    dev.ojs.worker.Json.parse(of(job -> {
                        throw new Release("later");
                    }).toString()));
            Check.holds(of(job -> {
                throw new Release(null);
            }).reason().isEmpty(), "no reason");
        });
        Check.that("a job without a handler fails with handler_not_found, retryable", () -> {
            Map<String, Object> error = new Worker().job("a", job -> null).perform("b").error();
            Check.equal(List.of("handler_not_found", true), List.of(error.get("code"), error.get("retryable")));
        });
    }

    private static void results() {
        Check.that("arguments and result go through JSON", () -> Check.json("[1,\"x\",null,{\"to\":\"a\",\"parts\":[1]}]",
                of(Job::args, 1, "x", null, new Mail("a", List.of(1))).result()));
        Check.that("a result that is no JSON fails the job for good as InvalidResult", () -> {
            List<Object> cycle = new ArrayList<>();
            cycle.add(cycle);
            for (Object result : List.of(Double.NaN, new Object(), "\ud800", cycle)) {
                Map<String, Object> error = of(job -> result).error();
                Check.equal(List.of("InvalidResult", false), List.of(error.get("type"), error.get("retryable")));
                Check.contains("the handler's result is not JSON", (String) error.get("message"));
            }
        });
        Check.that("a result that is still to come is an error that says to wait", () -> Check.contains("wait for its value",
                (String) of(job -> java.util.concurrent.CompletableFuture.completedFuture(1)).error().get("message")));
        Check.that("a result that does not fit into a frame is dropped, and the job is done", () -> {
            Outcome outcome = of(job -> "x".repeat(5_000_000));
            Check.equal("ack", outcome.outcome());
            Check.equal(null, outcome.result());
        });
        Check.that("arguments that are no JSON are the caller's error", () ->
                Check.fails(JsonException.class, () -> of(job -> null, new Object())));
    }

    private static void middleware() {
        Check.that("middleware is around the handler, the first one outermost, and may change the result", () -> {
            List<String> order = new ArrayList<>();
            Worker worker = new Worker().job("a", job -> order.add("handler"));
            for (String name : List.of("outer", "inner")) {
                worker.middleware((job, next) -> {
                    order.add(name);
                    return List.of(name, next.run());
                });
            }
            Check.json("[\"outer\",[\"inner\",true]]", worker.perform("a").result());
            Check.equal(List.of("outer", "inner", "handler"), order);
        });
        Check.that("what middleware throws counts as if the handler had thrown it", () -> Check.equal("release",
                new Worker().job("a", job -> null).middleware((job, next) -> {
                    next.run();
                    throw new Release("not today");
                }).perform("a").outcome()));
        Check.that("what middleware keeps for a job is not seen by the next", () -> {
            Worker worker = new Worker().job("a", job -> job.locals().size());
            worker.middleware((job, next) -> {
                job.locals().put("seen", job.id());
                return next.run();
            });
            Check.equal(List.of(1L, 1L), List.of(worker.perform("a").result(), worker.perform("a").result()));
        });
    }

    private static void typed() {
        Worker worker = new Worker().job("mail", Mail.class, Sent.class, (mail, job) -> new Sent(mail.to() + mail.parts()));
        Check.that("a typed handler gets its arguments in order, or by name", () -> {
            Check.equal(new Sent("ann[1, 2]"), worker.perform("mail", "ann", List.of(1, 2)).result(Sent.class));
            Check.equal(new Sent("ann[]"), worker.perform("mail", Map.of("to", "ann", "parts", List.of())).result(Sent.class));
        });
        Check.that("arguments that do not fit fail the job for good as InvalidArgs, and are not quoted", () -> {
            Map<String, Object> error = worker.perform("mail", "secret", "secret").error();
            Check.equal(List.of("InvalidArgs", false), List.of(error.get("type"), error.get("retryable")));
            Check.contains("args[1] (parts)", (String) error.get("message"));
            Check.holds(!error.toString().contains("secret"), "nothing is quoted");
        });
    }

    private static void refused() {
        Check.that("a record that refuses its values is InvalidArgs, and what it says about them is not quoted", () -> {
            Worker worker = new Worker().job("mail", Address.class, Void.class, (address, job) -> null);
            Map<String, Object> error = worker.perform("mail", "secret").error();
            Check.equal("InvalidArgs", error.get("type"));
            Check.contains("IllegalArgumentException", (String) error.get("message"));
            Check.holds(!error.toString().contains("secret"), "nothing is quoted");
        });
    }

    private static void conditions() {
        Check.that("a timeout cancels the job, which fails with code timeout, retryable", () -> {
            Worker worker = new Worker().job("a", job -> {
                Thread.sleep(60_000);
                return null;
            });
            Map<String, Object> error = worker.perform(new Delivery().timeout(Duration.ofMillis(50)), "a").error();
            Check.equal(List.of("timeout", true), List.of(error.get("code"), error.get("retryable")));
        });
        Check.that("a handler that finishes although it is cancelled is done", () -> {
            Worker worker = new Worker().job("a", job -> {
                job.awaitCancelled();
                return job.cancelReason().orElse(null);
            });
            Check.equal("cancelled", worker.perform(new Delivery().cancel(Duration.ofMillis(1), "cancelled"), "a").result());
        });
        Check.that("a cancel without delay comes when the handler has begun", () -> {
            Worker worker = new Worker().job("a", job -> {
                job.awaitCancelled();
                job.throwIfCancelled();
                return null;
            });
            Outcome outcome = worker.perform(new Delivery().cancel(Duration.ZERO, "timeout"), "a");
            Check.equal("timeout", outcome.error().get("code"));
        });
        Check.that("an error after a cancel that is not about it is a failure", () -> {
            Worker worker = new Worker().job("a", job -> {
                job.awaitCancelled();
                throw new IllegalStateException("broken");
            });
            Outcome outcome = worker.perform(new Delivery().cancel(Duration.ofMillis(1), "shutdown"), "a");
            Check.equal("broken", outcome.error().get("message"));
        });
        Check.that("a shutdown shows as stopping with the time that is left, then as a cancel", () -> {
            AtomicReference<Duration> left = new AtomicReference<>();
            Worker worker = new Worker().job("a", job -> {
                Check.holds(job.awaitStopping(Duration.ofSeconds(20)), "stopping");
                left.set(job.remaining().orElseThrow());
                job.awaitCancelled();
                throw new Release(job.cancelReason().orElse(null));
            });
            Outcome outcome = worker.perform(
                    new Delivery().stopping(Duration.ofMillis(20), Duration.ofMillis(300)), "a");
            Check.equal("shutdown", outcome.reason().orElse(null));
            Check.holds(left.get().toMillis() <= 300, "no more than said: " + left.get());
        });
        Check.that("a checkpoint comes in, and checkpoints, progress and heartbeats come out", () -> {
            Worker worker = new Worker().job("a", job -> {
                job.checkpoint(List.of(job.lastCheckpoint(), 1));
                job.progress(1.0000000000000002, "end", Map.of("n", 2));
                job.heartbeat();
                return null;
            });
            Outcome outcome = worker.perform(new Delivery().checkpoint("before"), "a");
            Check.json("[[\"before\",1]]", outcome.checkpoints());
            Check.json("[{\"progress\":1.0,\"message\":\"end\",\"data\":{\"n\":2}}]", outcome.progress());
            Check.equal(1, outcome.heartbeats());
        });
        Check.that("a handler that hangs is an error after the patience", () -> {
            CountDownLatch never = new CountDownLatch(1);
            Worker worker = new Worker(new Options().interrupt(false)).job("a", job -> {
                never.await();
                return null;
            });
            Check.contains("did not end within 50 ms", Check.fails(OjsException.class,
                    () -> worker.perform(new Delivery().patience(Duration.ofMillis(50)), "a")).getMessage());
            never.countDown();
        });
    }

    private static void fields() {
        Check.that("a job has its fields", () -> {
            Worker worker = new Worker().job("a", job -> {
                long left = Duration.between(Instant.now(), job.deadline().orElseThrow()).toMillis();
                return List.of(job.id(), job.queue(), job.attempt().getAsInt(), job.meta(), left > 50_000 && left <= 60_000,
                        job.arg(0, int.class), job.raw().contains("\"extra\":true"), job.remaining().isPresent());
            });
            Delivery delivery = new Delivery().id("j").queue("q").attempt(3).meta(Map.of("tenant", "t"))
                    .timeout(Duration.ofMinutes(1)).field("extra", true);
            Check.json("[\"j\",\"q\",3,{\"tenant\":\"t\"},true,7,true,false]", worker.perform(delivery, "a", 7).result());
        });
        Check.that("timeout in seconds is a deadline too, and without any there is none", () -> {
            Worker worker = new Worker().job("a", job -> job.deadline().isPresent());
            Check.equal(true, worker.perform(new Delivery().field("timeout", 60), "a").result());
            Check.equal(false, worker.perform("a").result());
        });
        Check.that("an argument that is missing, or does not fit, is InvalidArgs", () -> {
            Check.equal("InvalidArgs", of(job -> job.arg(1, String.class), "x").error().get("type"));
            Check.equal("InvalidArgs", of(job -> job.arg(0, int.class), "x").error().get("type"));
        });
    }
}
