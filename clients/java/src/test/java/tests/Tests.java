package tests;

import java.util.logging.Level;
import java.util.logging.Logger;

/** All unit tests, in one JVM. */
public final class Tests {
    private Tests() {}

    /** Runs them; the status is 0 when all passed. */
    public static void main(String[] args) {
        Logger.getLogger("dev.ojs.worker").setLevel(Level.OFF);
        JsonTests.run();
        PerformTests.run();
        LogTests.run();
        ResumeTests.run();
        EndingTests.run();
        StoppingTests.run();
        DevServerTests.run();
        SocketTests.run();
        AnswerTests.run();
        StalledTests.run();
        ProcessTests.run();
        System.exit(Check.summary());
    }
}
