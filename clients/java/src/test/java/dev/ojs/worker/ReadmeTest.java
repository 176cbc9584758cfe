package dev.ojs.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;

/** Compiles the code of the README, and runs its tests of handlers. */
class ReadmeTest {
    private static final String IMPORTS = "import static org.junit.jupiter.api.Assertions.*; import dev.ojs.worker.*;"
            + " import com.fasterxml.jackson.databind.ObjectMapper; import java.io.*; import java.net.*; import java.net.http.*;"
            + " import java.time.*; import java.util.*;";
    private static final String HELPERS = "static String send(Object mail) { return \"m1\"; }"
            + " static int render(String what) { return 1; } static String download(String what) { return what; }"
            + " static List<Row> read(String file) { return List.of(new Row(1)); } static void insert(Row row) {}"
            + " record Row(int id) {} static Worker worker = new Worker(); public";

    @Test
    void theCodeCompilesAndItsTestsPass() throws Exception {
        Path readme = Path.of(System.getProperty("readme", "README.md"));
        Matcher block = Pattern.compile("^```java\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL)
                .matcher(Files.readString(readme));
        List<String> blocks = new ArrayList<>();
        while (block.find()) {
            blocks.add(block.group(1));
        }
        assertEquals(4, blocks.size());
        String mailer = blocks.get(0).replace("Worker worker = new Worker();", "").replace("worker.run();", "")
                .replace("public static void main", HELPERS + " static void main");
        String enqueue = blocks.get(2).substring(0, blocks.get(2).indexOf("\nenqueue("));
        String tests = "class Tests extends Mailer { public static void run() throws Exception {"
                + " Mailer.main(null); " + blocks.get(1) + blocks.get(3) + "} " + enqueue + "}";
        Path folder = Files.createTempDirectory("ojs-readme-");
        Path source = Files.writeString(folder.resolve("Mailer.java"), IMPORTS + mailer + tests);
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, "-d", folder.toString(), "-cp",
                System.getProperty("java.class.path"), source.toString());
        assertEquals(0, status);
        try (var loader = new java.net.URLClassLoader(new java.net.URL[] {folder.toUri().toURL()})) {
            var run = loader.loadClass("Tests").getDeclaredMethod("run");
            run.setAccessible(true);
            run.invoke(null);
        }
    }
}
