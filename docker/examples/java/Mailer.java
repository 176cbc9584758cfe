import dev.ojs.worker.Discard;
import dev.ojs.worker.JobLog;
import dev.ojs.worker.Worker;
import java.util.Map;

/** A worker that pretends to send mail: email.send [address, seconds]. */
public final class Mailer {
    /** Runs it. */
    public static void main(String[] arguments) {
        Worker worker = new Worker();
        worker.job("email.send", job -> {
            String address = job.arg(0, String.class);
            double seconds = job.args().size() > 1 ? job.arg(1, double.class) : 0.1;
            if (!address.contains("@")) {
                throw new Discard("the first argument is no address");
            }
            Thread.sleep((long) (seconds * 1000)); // pretends to send; a cancel interrupts it
            return Map.of("sent_to", address);
        });
        JobLog.install();
        worker.run();
    }
}
