package tests;

import dev.ojs.worker.OjsException;
import dev.ojs.worker.testing.DevServer;
import dev.ojs.worker.testing.NoDevServer;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** The development server, where it is there. */
final class DevServerTests {
    private DevServerTests() {}

    static void run() {
        if (DevServer.program().isEmpty()) {
            Check.that("without ojs-devserver the error says where it is looked for", () -> Check.contains("OJS_DEVSERVER",
                    Check.fails(NoDevServer.class, DevServer::start).getMessage()));
            System.out.println("skipped: tests with ojs-devserver, which is not on PATH (OJS_DEVSERVER names another place)");
            return;
        }
        Check.that("a development server takes jobs, shows them, and is gone when it is closed", () -> {
            DevServer closed;
            try (DevServer server = DevServer.start()) {
                closed = server;
                String id = server.enqueue("email.send", List.of("a@b.c"), Map.of("queue", "mail"));
                Map<String, Object> job = server.awaitState(id, "available", Duration.ofSeconds(5));
                Check.equal(List.of("a@b.c"), job.get("args"));
                Check.equal("mail", job.get("queue"));
                Check.contains("not completed", Check.fails(OjsException.class,
                        () -> server.awaitState(id, "completed", Duration.ofMillis(1))).getMessage());
                Check.contains("404", Check.fails(OjsException.class, () -> server.job("none")).getMessage());
            }
            Check.contains("does not answer", Check.fails(OjsException.class, () -> closed.job("x")).getMessage());
        });
        Check.that("options that it does not know are an error with its words", () -> Check.contains("--nonsense",
                Check.fails(OjsException.class, () -> DevServer.start("--nonsense")).getMessage()));
    }
}
