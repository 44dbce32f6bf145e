package headworks.record;

import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.Instrumentation;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;

/**
 * Counts hand-overs in a virtual machine for some seconds, and leaves again: the classes are then as
 * before. Argument: {@code SECONDS FILE}.
 */
public final class Agent {
    private static boolean ready;
    private static boolean busy;

    private Agent() {}

    /** The entry of an agent that comes later. */
    public static void agentmain(String argument, Instrumentation machine) throws Exception {
        String[] words = argument.split(" ", 2);
        long millis = (long) (Double.parseDouble(words[0]) * 1000);
        Path file = Path.of(words[1]);
        synchronized (Agent.class) {
            if (busy) {
                throw new IllegalStateException("another recording is under way");
            }
            if (!ready) {
                publish(machine);
                ready = true;
            }
            busy = true;
        }
        // Attaching returns at once, and the machine may end meanwhile.
        Thread thread = new Thread(() -> apart(machine, millis, file), "headworks-record");
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * Counts by classes of a loader that is then forgotten, so that the machine unloads them: else each
     * recording would leave some behind.
     */
    private static void apart(Instrumentation machine, long millis, Path file) {
        URL own = Agent.class.getProtectionDomain().getCodeSource().getLocation();
        ClassLoader parent = ClassLoader.getPlatformClassLoader();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {own}, parent)) {
            loader.loadClass("headworks.record.Counting")
                    .getMethod("count", Instrumentation.class, long.class, Path.class)
                    .invoke(null, machine, millis, file);
        } catch (ReflectiveOperationException | IOException failed) {
            System.err.println("headworks: nothing is counted: " + failed);
        } finally {
            synchronized (Agent.class) {
                busy = false;
            }
        }
    }

    /** The class library calls Handovers: the bootstrap loader gets it, before anything uses it. */
    private static void publish(Instrumentation machine) throws IOException {
        Path jar = Files.createTempFile("headworks-record", ".jar");
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar))) {
            for (String name : new String[] {
                "Handovers", "Handovers$Key", "Handovers$Given", "Handovers$Way", "Handovers$Own"
            }) {
                String entry = "headworks/record/" + name + ".class";
                out.putNextEntry(new JarEntry(entry));
                try (InputStream in = ClassLoader.getSystemResourceAsStream(entry)) {
                    in.transferTo(out);
                }
                out.closeEntry();
            }
        }
        machine.appendToBootstrapClassLoaderSearch(new JarFile(jar.toFile()));
        // The machine keeps the file open.
        Files.deleteIfExists(jar);
    }
}
