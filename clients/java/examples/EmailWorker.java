import dev.ojs.worker.Discard;
import dev.ojs.worker.Worker;
import java.util.Map;

/**
 * Sends mail, or pretends to. Run it: ojs-init -- java -cp 'lib/*:ojs-worker.jar' EmailWorker.java
 */
public final class EmailWorker {
    private EmailWorker() {}

    record Mail(String to, String body) {}

    /**
     * Runs it.
     *
     * @param arguments none.
     */
    public static void main(String[] arguments) {
        Worker worker = new Worker();
        worker.job("email.send", Mail.class, (mail, job) -> {
            if (!mail.to().contains("@")) {
                throw new Discard("the first argument is no address"); // fails for good
            }
            Object sleep = job.meta().getOrDefault("sleep_ms", 0);
            Thread.sleep(((Number) sleep).longValue()); // a cancel interrupts it, and the job goes back
            return Map.of("sent", true);
        });
        worker.run();
    }
}
