package headworks.fair;

/** Flows that came in this period or in the one before. What a flow keeps is the number of its last period. */
final class Recent {
    private int period = 2;
    /** Flows that came in this period; and those that came in the one before, and not since. */
    private int now;
    private int before;

    /** A flow comes. Returns what it keeps instead of what it kept. */
    int note(int kept) {
        if (kept != period) {
            before -= kept == period - 1 ? 1 : 0;
            now++;
        }
        return period;
    }

    /** A period is over. */
    void tick() {
        before = now;
        now = 0;
        period++;
    }

    /** Whether any other flow than the one that keeps this came of late. */
    boolean others(int kept) {
        return now + before > (kept >= period - 1 ? 1 : 0);
    }
}
