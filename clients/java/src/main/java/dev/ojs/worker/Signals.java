package dev.ojs.worker;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * SIGTERM and SIGINT.
 *
 * <p>Java has no public means for signals: by itself a JVM answers SIGTERM with its shutdown hooks and the status 143,
 * also where 0 is the truth. {@code sun.misc.Signal} is in every JDK (module {@code jdk.unsupported}, kept by JEP 260),
 * but need not be for ever, nor in an image made by jlink: so it is looked up while the program runs, and where it is
 * missing a shutdown hook does the same, but for the status.
 */
final class Signals {
    private Signals() {}

    /**
     * Lets these signals do that instead of ending the process.
     *
     * @return what gives them back to whoever had them before; null if signals cannot be handled here.
     */
    static Runnable handle(Runnable action, String... names) {
        try {
            Class<?> signal = Class.forName("sun.misc.Signal");
            Class<?> handler = Class.forName("sun.misc.SignalHandler");
            Object proxy = Proxy.newProxyInstance(handler.getClassLoader(), new Class<?>[] {handler}, (self, method, args) -> {
                switch (method.getName()) {
                    case "handle" -> action.run();
                    case "hashCode" -> {
                        return System.identityHashCode(self);
                    }
                    case "equals" -> {
                        return self == args[0];
                    }
                    case "toString" -> {
                        return "a signal handler of dev.ojs.worker";
                    }
                    default -> throw new UnsupportedOperationException(method.getName());
                }
                return null;
            });
            Method handle = signal.getMethod("handle", signal, handler);
            Map<Object, Object> before = new LinkedHashMap<>();
            for (String name : names) {
                Object number = signal.getConstructor(String.class).newInstance(name);
                before.put(number, handle.invoke(null, number, proxy));
            }
            return () -> before.forEach((number, earlier) -> giveBack(handle, number, earlier));
        } catch (ReflectiveOperationException | RuntimeException | LinkageError missing) {
            Session.LOG.fine("no signal handler here: " + missing);
            return null;
        }
    }

    private static void giveBack(Method handle, Object number, Object earlier) {
        try {
            handle.invoke(null, number, earlier);
        } catch (ReflectiveOperationException | RuntimeException never) {
            Session.LOG.warning("the handler of " + number + " cannot be given back: " + never);
        }
    }
}
