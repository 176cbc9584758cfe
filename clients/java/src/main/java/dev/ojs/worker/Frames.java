package dev.ojs.worker;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** Frames as bytes. */
final class Frames {
    static final int PROTOCOL = 1;
    static final int DEFAULT_MAX_FRAME = 4 * 1024 * 1024;
    static final String VERSION = "0.2.0";

    private Frames() {}

    /** A frame with these members; those that are null are left out. An id goes back as it came. */
    static byte[] frame(String type, String jobId, Object... namesAndValues) {
        return withRaw(type, jobId, "", namesAndValues);
    }

    /** The same, with further members as JSON text in front of the end. */
    static byte[] withRaw(String type, String jobId, String raw, Object... namesAndValues) {
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("type", type);
        if (jobId != null) {
            members.put("job_id", jobId);
        }
        for (int i = 0; i < namesAndValues.length; i += 2) {
            if (namesAndValues[i + 1] != null) {
                members.put((String) namesAndValues[i], namesAndValues[i + 1]);
            }
        }
        String text = JsonWriter.writeBack(members, Json.MAX_DEPTH);
        return (text.substring(0, text.length() - 1) + raw + "}\n").getBytes(StandardCharsets.UTF_8);
    }

    /** A line as text; null if it is not UTF-8. */
    static String decode(byte[] line) {
        try {
            return StandardCharsets.UTF_8.newDecoder()
                    .onMalformedInput(CodingErrorAction.REPORT)
                    .onUnmappableCharacter(CodingErrorAction.REPORT)
                    .decode(ByteBuffer.wrap(line)).toString();
        } catch (CharacterCodingException broken) {
            return null;
        }
    }

    static String client() {
        return "ojs-worker-java/" + VERSION + " (" + System.getProperty("java.vm.name") + " "
                + System.getProperty("java.version") + ")";
    }
}
