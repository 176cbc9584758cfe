package tests;

import dev.ojs.worker.Json;
import dev.ojs.worker.JsonException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

/** The JSON of the library. */
final class JsonTests {
    private JsonTests() {}

    enum Color {
        RED, GREEN
    }

    record Point(int x, Optional<Integer> y) {}

    record Path(String name, List<Point> points, Map<String, Long> tags, Color color) {}

    static void run() {
        reading();
        writing();
        converting();
    }

    private static void same(String text) {
        Check.equal(text, Json.write(Json.parse(text)));
    }

    private static void reading() {
        Check.that("what was read is written with the same text", () -> {
            same("{\"b\":[1,-2.5,true,false,null,\"x\"],\"a\":{}}");
            same("[9007199254740993,18446744073709551616,-9223372036854775808]");
        });
        Check.that("integers and decimals keep every digit", () -> {
            Check.equal(9007199254740993L, Json.parse("9007199254740993"));
            Check.equal(new BigInteger("18446744073709551615"), Json.parse("18446744073709551615"));
            Check.equal(new BigDecimal("0.1000000000000000055511151231257827"),
                    Json.parse("0.1000000000000000055511151231257827"));
            Check.equal(0.1, Json.parse("0.1"));
            Check.equal(new BigDecimal("1e400"), Json.parse("1e400"));
        });
        Check.that("of a name that comes twice the last value counts", () -> Check.json("{\"a\":2}", Json.parse("{\"a\":1,\"a\":2}")));
        Check.that("what is no JSON is an error that says where", () -> {
            for (String text : List.of("", "{", "[1,]", "{\"a\":1,}", "01", "1.", "+1", ".5", "1e", "nul", "tru", "NaN",
                    "\"a", "\"\n\"", "\"\\x\"", "\"\\u12g4\"", "1 2", "{a:1}", "[1 2]", "'a'", "-", "{\"a\"}", "Infinity")) {
                Check.contains("not JSON at character", Check.fails(JsonException.class, () -> Json.parse(text)).getMessage());
            }
        });
        Check.that("what is too deep, or a number too long, is an error and no crash", () -> {
            Check.fails(JsonException.class, () -> Json.parse("[".repeat(100_000)));
            Check.fails(JsonException.class, () -> Json.parse("1".repeat(5000)));
            Check.fails(JsonException.class, () -> Json.parse("1e99999999999"));
        });
    }

    private static void writing() {
        Check.that("records, enums, arrays, optionals and times are written", () -> {
            Path path = new Path("p", List.of(new Point(1, Optional.empty())), Map.of("n", 5L), Color.GREEN);
            Check.json("{\"name\":\"p\",\"points\":[{\"x\":1,\"y\":null}],\"tags\":{\"n\":5},\"color\":\"GREEN\"}", path);
            Check.equal("[1,2]", Json.write(new int[] {1, 2}));
            Check.equal("\"1970-01-01T00:00:00Z\"", Json.write(Instant.EPOCH));
        });
        Check.that("control characters and quotes are escaped", () ->
                Check.equal("\"\\\"\\\\\\n\\u0001\"", Json.write("\"\\\n\u0001")));
        Check.that("what is no JSON is an error that says why", () -> {
            List<Object> cycle = new ArrayList<>();
            cycle.add(cycle);
            Map<Object, Object> keys = new LinkedHashMap<>();
            keys.put(1, 2);
            for (Object value : Arrays.asList(Double.NaN, Float.POSITIVE_INFINITY, new Object(), "\ud800", cycle, keys,
                    new byte[1], new StringBuilder("x"))) {
                Check.fails(JsonException.class, () -> Json.write(value));
            }
        });
        Check.that("a value may be 99 deep and no deeper", () -> {
            Json.write(Json.parse("[".repeat(99) + "]".repeat(99)));
            Check.fails(JsonException.class, () -> Json.write(Json.parse("[".repeat(100) + "]".repeat(100))));
        });
    }

    private static void converting() {
        Check.that("an object becomes a record, with records inside", () -> {
            Path path = Json.convert(Json.parse("{\"name\":\"p\",\"points\":[{\"x\":1,\"y\":2},{\"x\":3}],"
                    + "\"tags\":{\"n\":5},\"color\":\"RED\",\"new\":1}"), Path.class);
            Check.equal(new Path("p", List.of(new Point(1, Optional.of(2)), new Point(3, Optional.empty())),
                    Map.of("n", 5L), Color.RED), path);
        });
        Check.that("what does not fit is an error that says where and quotes no value", () -> {
            JsonException error = Check.fails(JsonException.class, () -> Json.convert(Json.parse(
                    "{\"name\":\"secret\",\"points\":[{\"x\":\"secret\"}],\"tags\":{},\"color\":\"RED\"}"), Path.class));
            Check.contains("the value.points[0].x: a int is expected, not a string", error.getMessage());
            Check.contains("is missing", Check.fails(JsonException.class,
                    () -> Json.convert(Json.parse("{}"), Path.class)).getMessage());
        });
        Check.that("a number that does not fit its type is an error, never another number", () -> {
            Check.fails(JsonException.class, () -> Json.convert(3_000_000_000L, int.class));
            Check.fails(JsonException.class, () -> Json.convert(1.5, long.class));
            Check.fails(JsonException.class, () -> Json.convert(new BigDecimal("1e999999999"), BigInteger.class));
            Check.equal(2, Json.convert(2.0, int.class));
            Check.equal(2.0, Json.convert(2L, double.class));
        });
        Check.that("strings become identifiers and times", () -> {
            UUID id = UUID.randomUUID();
            Check.equal(id, Json.convert(id.toString(), UUID.class));
            Check.fails(JsonException.class, () -> Json.convert("x", UUID.class));
            Check.fails(JsonException.class, () -> Json.convert("x", Instant.class));
            Check.fails(JsonException.class, () -> Json.convert("BLUE", Color.class));
        });
    }
}
