package headworks.fair;

/** Whether a second tenant was ever seen. All instances of a scheduler share one. */
final class Seen {
    private static final long NONE = -1;

    private volatile long first = NONE;
    private volatile boolean several;

    boolean several() {
        return several;
    }

    /** This one counts as seen. */
    boolean note(int tier, int tenant) {
        if (several) {
            return true;
        }
        long who = (long) tenant << 8 | tier;
        if (first == NONE) {
            synchronized (this) {
                if (first == NONE) {
                    first = who;
                }
            }
        }
        if (first != who) {
            several = true;
        }
        return several;
    }
}
