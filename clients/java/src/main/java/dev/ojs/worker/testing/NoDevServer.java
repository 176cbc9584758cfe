package dev.ojs.worker.testing;

import dev.ojs.worker.OjsException;

/** There is no {@code ojs-devserver} here: a test that needs one may be skipped. */
public final class NoDevServer extends OjsException {
    private static final long serialVersionUID = 1L;

    NoDevServer(String message) {
        super(message);
    }
}
