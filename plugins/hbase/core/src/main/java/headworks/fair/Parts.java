package headworks.fair;

/** What the plug-in and the agent of one region server share. Whichever comes first makes it. */
public final class Parts {
    public static final Network NETWORK = new Network(Scheduler.here());
    public static final Unread UNREAD = new Unread(Scheduler.here());
    /** Writes below the ordered log. Switched off until the configuration says how many there may be. */
    public static final Gate LOG = new Gate(Scheduler.here(), Stage.LOG, 0);

    private static volatile String attribute;

    private static volatile boolean filesSeen;
    private static volatile boolean measured;

    private Parts() {}

    /** A controller wants to know what a tenant uses, also one that is alone. */
    static void measure(boolean on) {
        measured = on;
    }

    public static boolean measured() {
        return measured;
    }

    /** The agent tells when a block is not in the cache. */
    public static void filesAreSeen() {
        filesSeen = true;
    }

    public static boolean seesFiles() {
        return filesSeen;
    }

    /** The attribute of a connection or request that names the tenant; {@code null} if the user does. */
    public static String attribute() {
        return attribute;
    }

    public static void setAttribute(String key) {
        attribute = key;
    }
}
