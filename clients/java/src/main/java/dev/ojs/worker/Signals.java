package dev.ojs.worker;

import java.lang.reflect.*;

/**
 * SIGTERM and SIGINT.
 *
 * <p>Java has no public API for signals: a JVM answers SIGTERM with its shutdown hooks at once,
 * while handlers still run. {@code sun.misc.Signal} is in every JDK (module {@code
 * jdk.unsupported}), but an image made by jlink may lack it, so it is looked up by reflection.
 */
final class Signals {
    /** Runs the action at these signals instead of ending the process; false if this JVM cannot. */
    static boolean handle(Runnable action, String... names) {
        InvocationHandler onCall = (self, method, args) -> {
            if (method.getName().equals("handle")) { action.run(); }
            return null;
        };
        try {
            Class<?> signal = Class.forName("sun.misc.Signal");
            Class<?> handler = Class.forName("sun.misc.SignalHandler");
            Object proxy = Proxy.newProxyInstance(handler.getClassLoader(), new Class<?>[] {handler}, onCall);
            for (String name : names) {
                Object number = signal.getConstructor(String.class).newInstance(name);
                signal.getMethod("handle", signal, handler).invoke(null, number, proxy);
            }
            return true;
        } catch (ReflectiveOperationException | RuntimeException | LinkageError missing) {
            return false;
        }
    }
}
