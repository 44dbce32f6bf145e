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
}
