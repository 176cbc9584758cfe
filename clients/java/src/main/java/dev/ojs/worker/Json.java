package dev.ojs.worker;

import static com.fasterxml.jackson.databind.cfg.CoercionAction.Fail;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.cfg.CoercionInputShape;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.type.LogicalType;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Reads and writes frames with the mapper of the worker. */
final class Json {
    private static final int MAX_LOG_CHARS = 10_000;

    final ObjectMapper mapper;
    private final ObjectWriter writer;

    Json(ObjectMapper mapper) {
        this.mapper = mapper == null ? defaultMapper() : mapper;
        this.writer = this.mapper.writer().without(SerializationFeature.INDENT_OUTPUT);
    }

    private static ObjectMapper defaultMapper() {
        return JsonMapper.builder().findAndAddModules()
                .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS)
                .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, DeserializationFeature.ACCEPT_FLOAT_AS_INT)
                .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
                .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
                .withCoercionConfig(LogicalType.Textual, strict -> strict.setCoercion(CoercionInputShape.Integer, Fail)
                        .setCoercion(CoercionInputShape.Float, Fail).setCoercion(CoercionInputShape.Boolean, Fail))
                // A double would lose digits.
                .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
                .nodeFactory(JsonNodeFactory.withExactBigDecimals(true)).build();
    }

    /**
     * A frame with its line break. `type` and `job_id` come first, because ojs-init reads them also
     * if the rest of an answer is broken.
     *
     * @throws IllegalArgumentException if Jackson cannot write a value.
     */
    byte[] frame(String type, String jobId, Map<String, ?> fields) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(256);
        try (JsonGenerator json = writer.createGenerator(out)) {
            json.writeStartObject();
            json.writeStringField("type", type);
            if (jobId != null) { json.writeStringField("job_id", jobId); }
            for (Map.Entry<String, ?> field : fields.entrySet()) {
                json.writeFieldName(field.getKey());
                writer.writeValue(json, field.getValue());
            }
            json.writeEndObject();
        } catch (IOException unwritable) {
            throw new IllegalArgumentException("Jackson cannot write this " + type, unwritable);
        }
        out.write('\n');
        return out.toByteArray();
    }

    /** A value that an earlier attempt or a step has saved; null if there is none. */
    <T> T convert(JsonNode value, Class<T> type) {
        return value.isNull() || value.isMissingNode() ? null : mapper.convertValue(value, type);
    }

    /** The text with `?` for halves of surrogate pairs, which UTF-8 and so Jackson cannot write. */
    static String mended(String text) {
        return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
    }

    /** The text for one line of the log. */
    static String oneLine(Object value) {
        String text = String.valueOf(value);
        return text.substring(0, Math.min(text.length(), MAX_LOG_CHARS)).replaceAll("\\p{Cntrl}", "?");
    }
}
