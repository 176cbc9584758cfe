package dev.ojs.worker;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON from a text; knows where the members of the outermost object stand. */
final class JsonReader {
    private static final int MAX_DEPTH = 256;
    private static final int MAX_NUMBER_CHARS = 4300;
    private static final int MOST_LONG_DIGITS = 18;

    private final String text;
    private int at;
    private int depth;
    private String spanOf;
    private String span;

    JsonReader(String text) {
        this.text = text;
    }

    /** One value and nothing after it. */
    Object readDocument() {
        Object value = readValue();
        skipSpace();
        if (at < text.length()) {
            throw wrong("something follows the value");
        }
        return value;
    }

    /**
     * One object and nothing after it; {@link #span} is then the text of its member of that name.
     */
    Map<String, Object> readFrame(String member) {
        spanOf = member;
        skipSpace();
        if (at >= text.length() || text.charAt(at) != '{') {
            throw wrong("a JSON object is expected");
        }
        Object value = readDocument();
        return asMap(value);
    }

    /** The text of the member that {@link #readFrame} was asked for; null if there is none. */
    String span() {
        return span;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> asMap(Object value) {
        return (Map<String, Object>) value;
    }

    private JsonException wrong(String what) {
        return new JsonException("not JSON at character " + at + ": " + what);
    }

    private void skipSpace() {
        while (at < text.length()) {
            char c = text.charAt(at);
            if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
                return;
            }
            at++;
        }
    }

    private char peek() {
        if (at >= text.length()) {
            throw wrong("the text ends too early");
        }
        return text.charAt(at);
    }

    private Object readValue() {
        skipSpace();
        char c = peek();
        switch (c) {
            case '{':
                return readObject();
            case '[':
                return readArray();
            case '"':
                return readString();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                if (c == '-' || (c >= '0' && c <= '9')) {
                    return readNumber();
                }
                throw wrong("a value is expected");
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong("a value is expected");
        }
        at += word.length();
        return value;
    }

    private void enter() {
        if (++depth > MAX_DEPTH) {
            throw wrong("nested deeper than " + MAX_DEPTH);
        }
        at++;
    }

    private Map<String, Object> readObject() {
        enter();
        Map<String, Object> members = new LinkedHashMap<>();
        skipSpace();
        boolean more = peek() != '}';
        while (more) {
            skipSpace();
            if (peek() != '"') {
                throw wrong("a member's name is expected");
            }
            String name = readString();
            skipSpace();
            if (peek() != ':') {
                throw wrong("a colon is expected");
            }
            at++;
            skipSpace();
            int start = at;
            members.put(name, readValue());
            if (depth == 1 && name.equals(spanOf)) {
                span = text.substring(start, at);
            }
            skipSpace();
            more = peek() == ',';
            if (more) {
                at++;
            } else if (peek() != '}') {
                throw wrong("a comma or the end of the object is expected");
            }
        }
        at++;
        depth--;
        return members;
    }

    private List<Object> readArray() {
        enter();
        List<Object> items = new ArrayList<>();
        skipSpace();
        boolean more = peek() != ']';
        while (more) {
            items.add(readValue());
            skipSpace();
            more = peek() == ',';
            if (more) {
                at++;
            } else if (peek() != ']') {
                throw wrong("a comma or the end of the array is expected");
            }
        }
        at++;
        depth--;
        return items;
    }

    private String readString() {
        at++;
        int start = at;
        while (true) {
            char c = peek();
            if (c == '"') {
                return text.substring(start, at++);
            }
            if (c == '\\') {
                return readEscaped(start);
            }
            if (c < ' ') {
                throw wrong("a control character in a string");
            }
            at++;
        }
    }

    private String readEscaped(int start) {
        StringBuilder out = new StringBuilder(text.substring(start, at));
        while (true) {
            char c = peek();
            at++;
            if (c == '"') {
                return out.toString();
            }
            if (c < ' ') {
                throw wrong("a control character in a string");
            }
            out.append(c == '\\' ? readEscape() : c);
        }
    }

    private char readEscape() {
        char c = peek();
        at++;
        switch (c) {
            case '"':
            case '\\':
            case '/':
                return c;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                return readHex();
            default:
                throw wrong("an unknown escape in a string");
        }
    }

    private char readHex() {
        int code = 0;
        for (int i = 0; i < 4; i++) {
            char c = peek();
            int digit = c < 128 ? Character.digit(c, 16) : -1;
            if (digit < 0) {
                throw wrong("four hexadecimal digits are expected");
            }
            code = code * 16 + digit;
            at++;
        }
        return (char) code;
    }

    private Number readNumber() {
        int start = at;
        if (peek() == '-') {
            at++;
        }
        boolean isZero = at < text.length() && text.charAt(at) == '0';
        int digits = skipDigits();
        if (isZero && digits > 1) {
            throw wrong("a number with a zero in front");
        }
        boolean isInteger = true;
        if (at < text.length() && text.charAt(at) == '.') {
            isInteger = false;
            at++;
            skipDigits();
        }
        if (at < text.length() && (text.charAt(at) == 'e' || text.charAt(at) == 'E')) {
            isInteger = false;
            at++;
            if (at < text.length() && (text.charAt(at) == '+' || text.charAt(at) == '-')) {
                at++;
            }
            skipDigits();
        }
        if (at - start > MAX_NUMBER_CHARS) {
            throw wrong("a number of more than " + MAX_NUMBER_CHARS + " characters");
        }
        String number = text.substring(start, at);
        return isInteger ? integer(number, digits) : decimal(number);
    }

    private int skipDigits() {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == start) {
            throw wrong("a digit is expected");
        }
        return at - start;
    }

    private static Number integer(String number, int digits) {
        if (digits <= MOST_LONG_DIGITS) {
            return Long.valueOf(number);
        }
        BigInteger exact = new BigInteger(number);
        if (exact.bitLength() < Long.SIZE) {
            return exact.longValue();
        }
        return exact;
    }

    /** A double where it has the same digits, else all digits. */
    private Number decimal(String number) {
        double rounded = Double.parseDouble(number);
        try {
            BigDecimal exact = new BigDecimal(number);
            boolean isSame = !Double.isInfinite(rounded) && exact.compareTo(new BigDecimal(Double.toString(rounded))) == 0;
            if (isSame) {
                return rounded;
            }
            return exact;
        } catch (ArithmeticException | NumberFormatException tooLarge) {
            throw wrong("a number with an exponent that is too large");
        }
    }

    /**
     * The id of the job in a job frame that cannot be read whole: nested too deep, a number too long.
     *
     * @return null if there is none to be found.
     */
    static String salvageJobId(String text) {
        int depth = 0;
        String[] keys = new String[3];
        String last = null;
        JsonReader reader = new JsonReader(text);
        try {
            while (reader.at < text.length()) {
                char c = text.charAt(reader.at);
                if (c == '"') {
                    last = reader.readString();
                    if (depth == 2 && "job".equals(keys[1]) && "id".equals(keys[2])) {
                        return last;
                    }
                    continue;
                }
                if (c == '{' || c == '[') {
                    depth++;
                } else if (c == '}' || c == ']') {
                    depth--;
                }
                if (depth >= 0 && depth < keys.length && ":,{[".indexOf(c) >= 0) {
                    keys[depth] = c == ':' ? last : null;
                }
                reader.at++;
            }
        } catch (JsonException broken) {
            return null;
        }
        return null;
    }
}
