package headworks.fair;

/** For whom the current thread works: the name of a tenant, between the stages of one process. */
public final class Here {
    private static final ThreadLocal<String> NAME = new ThreadLocal<>();

    private Here() {}

    /** The tenant's name, {@code null} if the thread works for no tenant. */
    public static String name() {
        return NAME.get();
    }

    public static void set(String name) {
        NAME.set(name);
    }

    /** How long the thread has waited for turns of ours since it was asked, in one cell. */
    private static final ThreadLocal<long[]> WAITED = ThreadLocal.withInitial(() -> new long[1]);

    /** The thread has waited for its turn. */
    static void waited(long ns) {
        WAITED.get()[0] += ns;
    }

    /** How long the thread has waited for its turns since this was asked before, in nanoseconds. */
    public static long waited() {
        long[] cell = WAITED.get();
        long ns = cell[0];
        cell[0] = 0;
        return ns;
    }

    /** An attempt that ends when it needs a file. */
    private static final class Attempt {
        private boolean ended;
    }

    private static final ThreadLocal<Attempt> ATTEMPT = new ThreadLocal<>();

    /** The thread tries a request without reading files. */
    public static void attempt() {
        ATTEMPT.set(new Attempt());
    }

    /** The thread is about to read a file. {@code true}: it must not, and the attempt is over. */
    public static boolean ends() {
        Attempt attempt = ATTEMPT.get();
        if (attempt != null) {
            attempt.ended = true;
        }
        return attempt != null;
    }

    /** Whether the attempt is over. */
    public static boolean ended() {
        Attempt attempt = ATTEMPT.get();
        return attempt != null && attempt.ended;
    }

    /** The thread works as ever. */
    public static void forget() {
        ATTEMPT.remove();
    }
}
