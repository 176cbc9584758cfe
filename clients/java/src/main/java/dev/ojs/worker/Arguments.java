package dev.ojs.worker;

import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.JsonMappingException.Reference;
import com.fasterxml.jackson.databind.deser.*;
import com.fasterxml.jackson.databind.deser.impl.UnsupportedTypeDeserializer;
import com.fasterxml.jackson.databind.deser.std.ContainerDeserializerBase;
import com.fasterxml.jackson.databind.exc.MismatchedInputException;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Modifier;
import java.util.*;

/**
 * Reads the arguments of jobs as one type.
 *
 * <p>A type with a constructor whose parameters Jackson knows (a record, or {@code @JsonCreator})
 * takes them in the order of its parameters, or by name from one argument, an object. A collection
 * takes all of them, and any other type the one argument.
 */
final class Arguments<A> {
    private static final String ADVICE = ": make it a record, give it a constructor and getters, or add its Jackson module."
            + " Such a handler works: worker.job(\"email.send\", Mail.class, Sent.class, (mail, job) -> new Sent(...))"
            + " with record Mail(String to, String body) {} and record Sent(String id) {}";

    private final ObjectMapper mapper;
    private final JavaType type;
    private final List<SettableBeanProperty> parameters;
    private final List<String> names;

    /** @throws IllegalArgumentException if Jackson cannot read the type. */
    Arguments(ObjectMapper mapper, Class<A> type) {
        this.mapper = mapper;
        this.type = mapper.constructType(type);
        this.parameters = parametersOf(mapper, this.type);
        this.names = parameters.stream().map(SettableBeanProperty::getName).toList();
    }

    A read(JsonNode args) {
        if (type.isCollectionLikeType() || type.isArrayType()) { return read(mapper, type, args, "args", names); }
        JsonNode first = args.path(0);
        int most = Math.max(1, names.size());
        if (args.size() > most) {
            throw new InvalidArgs("args: at most " + most + " are expected " + names + ", not " + args.size());
        }
        if (names.isEmpty()) { return read(mapper, type, first, "args[0]", names); }
        if (args.size() == 1 && first.isObject() && (most > 1 || first.has(names.get(0)))) {
            return read(mapper, type, withOptionals(first.deepCopy()), "args[0]", List.of());
        }
        ObjectNode named = mapper.createObjectNode();
        Iterator<JsonNode> values = args.iterator();
        names.stream().filter(name -> values.hasNext()).forEach(name -> named.set(name, values.next()));
        return read(mapper, type, withOptionals(named), "args", names);
    }

    /** Jackson takes null as an empty Optional, but nothing as a mistake. */
    private ObjectNode withOptionals(ObjectNode named) {
        for (SettableBeanProperty parameter : parameters) {
            if (!named.has(parameter.getName()) && parameter.getType().hasRawClass(Optional.class)) {
                named.putNull(parameter.getName());
            }
        }
        return named;
    }

    /** One argument as a type of the handler. */
    static <T> T at(int index, JsonNode args, ObjectMapper mapper, Class<T> type) {
        return read(mapper, mapper.constructType(type), args.path(index), "args[" + index + "]", List.of());
    }

    private static <T> T read(ObjectMapper mapper, JavaType type, JsonNode value, String place, List<String> names) {
        if (value.isMissingNode()) {
            throw new InvalidArgs(place + ": " + type.getRawClass().getSimpleName() + " is expected, and it is missing");
        }
        try {
            return mapper.readerFor(type).with(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES).readValue(value);
        } catch (IOException | RuntimeException unfit) {
            throw refusal(unfit, type.getRawClass(), value, place, names);
        }
    }

    /** Says what is wrong, without the value: the messages of Jackson quote it. */
    private static InvalidArgs refusal(Exception unfit, Class<?> type, JsonNode value, String root, List<String> names) {
        String place = root;
        Class<?> expected = type;
        JsonNode there = value;
        for (Reference step : unfit instanceof JsonMappingException mapping ? mapping.getPath() : List.<Reference>of()) {
            String name = step.getFieldName();
            there = name == null ? there.path(step.getIndex()) : there.path(name);
            boolean isParameter = place.equals("args") && names.contains(name);
            place += isParameter ? "[" + names.indexOf(name) + "] (" + name + ")"
                    : name == null ? "[" + step.getIndex() + "]" : "." + name;
        }
        if (unfit instanceof MismatchedInputException mismatch && mismatch.getTargetType() != null) {
            expected = mismatch.getTargetType();
        }
        String came = there.isMissingNode() ? "and it is missing" : there.isIntegralNumber() ? "not this integer"
                : "not this " + there.getNodeType().toString().toLowerCase(Locale.ROOT);
        return new InvalidArgs(Json.oneLine(place + ": " + expected.getSimpleName() + " is expected, " + came));
    }

    // Types that Jackson can never read or write are refused before the first job comes.

    /**
     * The parameters of the constructor that Jackson uses, in their order; empty if it uses none.
     *
     * @throws IllegalArgumentException if values of this type can never be read from JSON.
     */
    private static List<SettableBeanProperty> parametersOf(ObjectMapper mapper, JavaType type) {
        List<SettableBeanProperty> parameters = new ArrayList<>();
        try {
            // No parser is needed to look for deserializers.
            JsonDeserializer<?> found = ((DefaultDeserializationContext) mapper.getDeserializationContext())
                    .createDummyInstance(mapper.getDeserializationConfig()).findRootValueDeserializer(type);
            requireReadable(found, type, new HashSet<>());
            if (found instanceof BeanDeserializerBase bean) {
                bean.creatorProperties().forEachRemaining(parameters::add);
            }
        } catch (JsonMappingException unreadable) {
            throw new IllegalArgumentException(unreadable.getOriginalMessage() + ADVICE);
        }
        parameters.sort(Comparator.comparingInt(SettableBeanProperty::getCreatorIndex));
        return parameters;
    }

    private static void requireReadable(JsonDeserializer<?> found, JavaType type, Set<Object> seen) {
        if (found instanceof UnsupportedTypeDeserializer || found instanceof AbstractDeserializer
                || (found instanceof BeanDeserializerBase bean && !bean.getValueInstantiator().canInstantiate())) {
            throw new IllegalArgumentException(type.getRawClass().getName() + " can never be read from JSON" + ADVICE);
        }
        if (found instanceof ContainerDeserializerBase<?> container && container.getContentDeserializer() != null) {
            requireReadable(container.getContentDeserializer(), container.getContentType(), seen);
        }
        if (found instanceof BeanDeserializerBase bean && seen.add(found)) {
            bean.properties().forEachRemaining(property -> {
                if (!property.hasValueTypeDeserializer()) {
                    requireReadable(property.getValueDeserializer(), property.getType(), seen);
                }
            });
        }
    }

    /** @throws IllegalArgumentException if values of this type can never be written as JSON. */
    static void requireWritable(ObjectMapper mapper, Class<?> type) {
        // A subclass may have properties.
        boolean isKnownLater = type == Object.class || Modifier.isAbstract(type.getModifiers());
        if (!isKnownLater && !mapper.canSerialize(type)) {
            throw new IllegalArgumentException(type.getName() + " can never be written as JSON" + ADVICE);
        }
    }
}
