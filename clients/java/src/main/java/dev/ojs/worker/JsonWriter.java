package dev.ojs.worker;

import java.lang.reflect.Array;
import java.lang.reflect.RecordComponent;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;

/** Writes JSON that every parser takes: no NaN, no half surrogate pairs, not too deep. */
final class JsonWriter {
    private static final char[] HEX = "0123456789abcdef".toCharArray();

    private final StringBuilder out = new StringBuilder(128);
    private final int maxDepth;
    private final boolean takesHalfPairs;
    private int depth;

    private JsonWriter(int maxDepth, boolean takesHalfPairs) {
        this.maxDepth = maxDepth;
        this.takesHalfPairs = takesHalfPairs;
    }

    static String write(Object value, int maxDepth) {
        JsonWriter writer = new JsonWriter(maxDepth, false);
        writer.value(value);
        return writer.out.toString();
    }

    /** Writes what came in, as it came: half a surrogate pair becomes the escape that it was. */
    static String writeBack(Object value, int maxDepth) {
        JsonWriter writer = new JsonWriter(maxDepth, true);
        writer.value(value);
        return writer.out.toString();
    }

    private void value(Object value) {
        if (value == null) {
            out.append("null");
        } else if (value instanceof String text) {
            string(text);
        } else if (value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Number number) {
            number(number);
        } else if (value instanceof Map<?, ?> map) {
            members(map);
        } else if (value instanceof Collection<?> items) {
            array(items);
        } else if (value instanceof Record record) {
            record(record);
        } else if (value instanceof Optional<?> optional) {
            value(optional.orElse(null));
        } else if (value instanceof Enum<?> constant) {
            string(constant.name());
        } else if (JsonTypes.isText(value.getClass())) {
            string(value.toString());
        } else if (value.getClass().isArray() && !(value instanceof byte[])) {
            javaArray(value);
        } else {
            throw unfit(value.getClass());
        }
    }

    private static JsonException unfit(Class<?> type) {
        String hint = type == byte[].class ? "encode bytes as a String (Base64)"
                : Future.class.isAssignableFrom(type) || CompletionStage.class.isAssignableFrom(type)
                ? "wait for its value, handlers have a thread each" : "use a record, a Map or a List";
        return new JsonException("a value of the class " + type.getTypeName() + " cannot be written as JSON: " + hint);
    }

    private void number(Number number) {
        if (number instanceof Double || number instanceof Float) {
            double value = number.doubleValue();
            if (Double.isNaN(value) || Double.isInfinite(value)) {
                throw new JsonException(number + " cannot be written as JSON");
            }
            out.append(number);
        } else if (number instanceof Integer || number instanceof Long || number instanceof Short
                || number instanceof Byte || number instanceof BigInteger || number instanceof BigDecimal) {
            out.append(number);
        } else if (number instanceof java.util.concurrent.atomic.AtomicInteger
                || number instanceof java.util.concurrent.atomic.AtomicLong) {
            out.append(number.longValue());
        } else {
            throw unfit(number.getClass());
        }
    }

    private void enter(char bracket) {
        if (++depth > maxDepth) {
            throw new JsonException("nested deeper than " + maxDepth);
        }
        out.append(bracket);
    }

    private void leave(char bracket) {
        depth--;
        out.append(bracket);
    }

    private void members(Map<?, ?> map) {
        enter('{');
        boolean isFirst = true;
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            if (!(entry.getKey() instanceof String name)) {
                throw new JsonException("the keys of a Map must be Strings to be written as JSON");
            }
            isFirst = member(isFirst, name, entry.getValue());
        }
        leave('}');
    }

    private boolean member(boolean isFirst, String name, Object value) {
        if (!isFirst) {
            out.append(',');
        }
        string(name);
        out.append(':');
        value(value);
        return false;
    }

    private void array(Collection<?> items) {
        enter('[');
        boolean isFirst = true;
        for (Object item : items) {
            if (!isFirst) {
                out.append(',');
            }
            isFirst = false;
            value(item);
        }
        leave(']');
    }

    private void javaArray(Object array) {
        enter('[');
        for (int i = 0; i < Array.getLength(array); i++) {
            if (i > 0) {
                out.append(',');
            }
            value(Array.get(array, i));
        }
        leave(']');
    }

    private void record(Record record) {
        enter('{');
        boolean isFirst = true;
        for (RecordComponent component : record.getClass().getRecordComponents()) {
            isFirst = member(isFirst, component.getName(), JsonTypes.read(record, component));
        }
        leave('}');
    }

    private void string(String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                control(c);
            } else if (!Character.isSurrogate(c)) {
                out.append(c);
            } else if (Character.isHighSurrogate(c) && i + 1 < text.length()
                    && Character.isLowSurrogate(text.charAt(i + 1))) {
                out.append(c).append(text.charAt(++i));
            } else if (takesHalfPairs) {
                out.append("\\u").append(Integer.toHexString(c));
            } else {
                throw new JsonException("half a surrogate pair cannot be written as JSON");
            }
        }
        out.append('"');
    }

    private void control(char c) {
        switch (c) {
            case '\n' -> out.append("\\n");
            case '\r' -> out.append("\\r");
            case '\t' -> out.append("\\t");
            default -> out.append("\\u00").append(HEX[c >> 4]).append(HEX[c & 15]);
        }
    }
}
