package dev.ojs.worker;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.lang.reflect.WildcardType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Function;

/** JSON values as types of a program, and records as JSON. */
final class JsonTypes {
    private static final int MAX_SCALE = 10_000;
    private static final Map<Class<?>, Function<String, Object>> TEXTS = Map.of(
            UUID.class, UUID::fromString,
            Instant.class, Instant::parse,
            Duration.class, Duration::parse,
            LocalDate.class, LocalDate::parse,
            LocalTime.class, LocalTime::parse,
            LocalDateTime.class, LocalDateTime::parse,
            OffsetDateTime.class, OffsetDateTime::parse);

    private JsonTypes() {}

    /** Whether values of this class are strings in JSON. */
    static boolean isText(Class<?> type) {
        return TEXTS.containsKey(type);
    }

    static Object read(Record record, RecordComponent component) {
        try {
            component.getAccessor().setAccessible(true);
            return component.getAccessor().invoke(record);
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw new JsonException("component " + component.getName() + " of the record "
                    + record.getClass().getTypeName() + " cannot be read: " + error.getClass().getName());
        }
    }

    @SuppressWarnings("unchecked")
    static <T> T convert(Object value, Class<T> type) {
        return (T) convert(value, (Type) type, "the value");
    }

    /**
     * The arguments of a job as one value. A record takes them in the order of its components, or by name where there
     * is one argument, an object; any other type takes the one argument, or for a collection all of them.
     */
    @SuppressWarnings("unchecked")
    static <A> A arguments(List<Object> args, Class<A> type) {
        if (!type.isRecord()) {
            boolean takesAll = type.isAssignableFrom(List.class);
            if (!takesAll && args.size() != 1) {
                throw new JsonException("one argument is expected, there are " + args.size());
            }
            return takesAll ? convert(args, type, "args") : convert(args.get(0), type, "args[0]");
        }
        RecordComponent[] components = type.getRecordComponents();
        boolean isWhole = components.length == 1 && takesObject(components[0].getType());
        if (args.size() == 1 && args.get(0) instanceof Map && !isWhole) {
            return convert(args.get(0), type, "args[0]");
        }
        if (args.size() > components.length) {
            throw new JsonException("there are " + args.size() + " arguments, " + type.getSimpleName() + " takes "
                    + components.length);
        }
        Object[] values = new Object[components.length];
        for (int i = 0; i < values.length; i++) {
            String place = "args[" + i + "] (" + components[i].getName() + ")";
            values[i] = component(components[i], i < args.size(), i < args.size() ? args.get(i) : null, place);
        }
        return (A) construct(type, components, values, "args");
    }

    private static boolean takesObject(Class<?> type) {
        return type.isRecord() || type.isAssignableFrom(Map.class);
    }

    @SuppressWarnings("unchecked")
    static <T> T convert(Object value, Class<T> type, String place) {
        return (T) convert(value, (Type) type, place);
    }

    private static Object convert(Object value, Type wanted, String place) {
        if (wanted instanceof Class<?> type) {
            return toClass(value, type, place);
        }
        if (wanted instanceof WildcardType wildcard) {
            return convert(value, wildcard.getUpperBounds()[0], place);
        }
        if (wanted instanceof ParameterizedType generic && generic.getRawType() instanceof Class<?> raw) {
            Type[] of = generic.getActualTypeArguments();
            if (raw == Optional.class) {
                return value == null ? Optional.empty() : Optional.of(convert(value, of[0], place));
            }
            if (raw.isAssignableFrom(List.class)) {
                return value == null ? null : toList(value, of[0], place);
            }
            if (raw.isAssignableFrom(Map.class) && of[0] == String.class) {
                return value == null ? null : toMap(value, of[1], place);
            }
        }
        throw new JsonException(place + ": JSON cannot become a " + wanted.getTypeName());
    }

    private static Object toClass(Object value, Class<?> type, String place) {
        if (type == Object.class || (type == Optional.class && value == null)) {
            return type == Object.class ? value : Optional.empty();
        }
        if (value == null) {
            if (type.isPrimitive()) {
                throw unfit(null, type, place);
            }
            return null;
        }
        if (type == String.class || type == boolean.class || type == Boolean.class) {
            Class<?> boxed = type == boolean.class ? Boolean.class : type;
            if (!boxed.isInstance(value)) {
                throw unfit(value, type, place);
            }
            return value;
        }
        if (type.isPrimitive() || Number.class.isAssignableFrom(type)) {
            return toNumber(value, type, place);
        }
        if (type.isRecord()) {
            return toRecord(value, type, place);
        }
        if (type == Optional.class) {
            return Optional.of(value);
        }
        if (type.isEnum() || isText(type)) {
            return toText(value, type, place);
        }
        if (type.isAssignableFrom(List.class) && value instanceof List) {
            return value;
        }
        if (type.isAssignableFrom(Map.class) && value instanceof Map) {
            return value;
        }
        throw unfit(value, type, place);
    }

    private static JsonException unfit(Object value, Class<?> type, String place) {
        String found = value == null ? "null"
                : value instanceof Number ? "this number"
                : value instanceof String ? "a string"
                : value instanceof Boolean ? "true or false"
                : value instanceof List ? "an array" : "an object";
        return new JsonException(place + ": a " + type.getSimpleName() + " is expected, not " + found);
    }

    private static Object toNumber(Object value, Class<?> type, String place) {
        if (type == Number.class && value instanceof Number) {
            return value;
        }
        if (!(value instanceof Number)) {
            throw unfit(value, type, place);
        }
        try {
            BigDecimal exact = new BigDecimal(value.toString());
            if (type == double.class || type == Double.class) {
                return exact.doubleValue();
            }
            if (type == float.class || type == Float.class) {
                return exact.floatValue();
            }
            if (type == long.class || type == Long.class) {
                return exact.longValueExact();
            }
            if (type == int.class || type == Integer.class) {
                return exact.intValueExact();
            }
            if (type == short.class || type == Short.class) {
                return exact.shortValueExact();
            }
            if (type == byte.class || type == Byte.class) {
                return exact.byteValueExact();
            }
            if (type == BigDecimal.class) {
                return exact;
            }
            // The digits of 1E+1000000000 would not fit into memory.
            if (type == BigInteger.class && Math.abs((long) exact.scale()) <= MAX_SCALE) {
                return exact.toBigIntegerExact();
            }
        } catch (ArithmeticException tooLarge) {
            throw unfit(value, type, place);
        }
        throw unfit(value, type, place);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object toText(Object value, Class<?> type, String place) {
        if (!(value instanceof String text)) {
            throw unfit(value, type, place);
        }
        try {
            return type.isEnum() ? Enum.valueOf((Class) type, text) : TEXTS.get(type).apply(text);
        } catch (IllegalArgumentException | DateTimeException wrong) {
            throw new JsonException(place + ": the string is no " + type.getSimpleName());
        }
    }

    private static List<Object> toList(Object value, Type of, String place) {
        if (!(value instanceof Collection<?> items)) {
            throw unfit(value, List.class, place);
        }
        List<Object> list = new ArrayList<>(items.size());
        for (Object item : items) {
            list.add(convert(item, of, place + "[" + list.size() + "]"));
        }
        return list;
    }

    private static Map<String, Object> toMap(Object value, Type of, String place) {
        if (!(value instanceof Map<?, ?> members)) {
            throw unfit(value, Map.class, place);
        }
        Map<String, Object> map = new LinkedHashMap<>();
        members.forEach((name, member) -> map.put((String) name, convert(member, of, place + "." + name)));
        return map;
    }

    private static Object toRecord(Object value, Class<?> type, String place) {
        if (!(value instanceof Map<?, ?> members)) {
            throw unfit(value, type, place);
        }
        RecordComponent[] components = type.getRecordComponents();
        Object[] values = new Object[components.length];
        for (int i = 0; i < values.length; i++) {
            String name = components[i].getName();
            values[i] = component(components[i], members.containsKey(name), members.get(name), place + "." + name);
        }
        return construct(type, components, values, place);
    }

    private static Object component(RecordComponent component, boolean isThere, Object value, String place) {
        if (!isThere && component.getType() != Optional.class) {
            throw new JsonException(place + " is missing");
        }
        return convert(value, component.getGenericType(), place);
    }

    private static Object construct(Class<?> type, RecordComponent[] components, Object[] values, String place) {
        Class<?>[] types = new Class<?>[components.length];
        for (int i = 0; i < types.length; i++) {
            types[i] = components[i].getType();
        }
        try {
            Constructor<?> constructor = type.getDeclaredConstructor(types);
            constructor.setAccessible(true);
            return constructor.newInstance(values);
        } catch (InvocationTargetException refused) {
            // Its class alone: messages like to quote the value.
            throw new JsonException(place + ": " + type.getSimpleName() + " refuses its values: "
                    + Failures.name(refused.getCause()));
        } catch (ReflectiveOperationException | RuntimeException error) {
            throw new JsonException("the record " + type.getTypeName() + " cannot be made: " + error);
        }
    }
}
