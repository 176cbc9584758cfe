package dev.ojs.worker;

/** Something is no JSON, cannot be written as JSON, or does not fit the type that it is wanted as. */
public class JsonException extends OjsException {
    private static final long serialVersionUID = 1L;

    /** @param message what is wrong, and where. */
    public JsonException(String message) {
        super(message);
    }
}
