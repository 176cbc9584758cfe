package dev.ojs.worker;

import java.math.BigDecimal;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * JSON, exactly.
 *
 * <p>A value is {@code null}, a {@link Boolean}, a {@link String}, a {@link java.util.List}, a {@link java.util.Map} with
 * names in the order of the text, or a {@link Number}: a {@link Long} where an integer fits into one, else a
 * {@link java.math.BigInteger}; a {@link Double} where a decimal keeps its digits in one, else a
 * {@link java.math.BigDecimal}. Take numbers as {@link Number}: {@code ((Number) value).intValue()}.
 */
public final class Json {
    /** How deep a frame of the protocol may be nested, itself included. */
    static final int MAX_DEPTH = 100;
    /** How deep a result or a checkpoint may be nested: the frame around it is one more. */
    static final int MAX_VALUE_DEPTH = MAX_DEPTH - 1;
    /** How deep what is kept of a job may be nested: it stands in the form that saves steps and positions. */
    static final int MAX_KEPT_DEPTH = MAX_VALUE_DEPTH - 5;

    private Json() {}

    /**
     * Reads one JSON value.
     *
     * @throws JsonException if it is no JSON, is nested deeper than 256 or has a number of more than 4300 characters.
     *     Of a name that comes twice in an object, the last value counts.
     */
    public static Object parse(String text) {
        return new JsonReader(text).readDocument();
    }

    /**
     * Writes a value as JSON on one line: what {@link #parse} gives, and also records, enums, arrays, every
     * {@link java.util.Collection}, {@link java.util.Optional}, {@link java.util.UUID} and the types of
     * {@code java.time} that have a text form of ISO 8601.
     *
     * @throws JsonException if it is something else, NaN or infinite, has half a surrogate pair, or is nested deeper
     *     than 99 (as one that contains itself is).
     */
    public static String write(Object value) {
        return JsonWriter.write(value, MAX_VALUE_DEPTH);
    }

    /**
     * Whether two values that were read are the same, however their numbers are spelled: a backend may give 10 back as 10.0.
     */
    static boolean isSame(Object one, Object other) {
        if (one instanceof Number number && other instanceof Number same) {
            // Quick for 1e999999999 too: digits are compared only where both have the same size.
            return new BigDecimal(number.toString()).compareTo(new BigDecimal(same.toString())) == 0;
        }
        if (one instanceof List<?> items && other instanceof List<?> others) {
            Iterator<?> next = others.iterator();
            return items.size() == others.size() && items.stream().allMatch(item -> isSame(item, next.next()));
        }
        if (one instanceof Map<?, ?> members && other instanceof Map<?, ?> others) {
            return members.keySet().equals(others.keySet())
                    && members.keySet().stream().allMatch(name -> isSame(members.get(name), others.get(name)));
        }
        return Objects.equals(one, other);
    }

    /**
     * A JSON value as a type of yours: a record (its components by name), {@code List}, {@code Map}, {@code String},
     * {@code boolean}, a number, an enum, {@code Optional}, {@code UUID}, a type of {@code java.time}, or
     * {@code Object} for the value as it is. Members that a record does not have are ignored.
     *
     * @throws JsonException if it does not fit; the message says where, and does not quote the value.
     */
    public static <T> T convert(Object value, Class<T> type) {
        return JsonTypes.convert(value, type);
    }
}
