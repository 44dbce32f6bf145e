package headworks.fair;

/**
 * Whether a get of a tenant in a region is worth an attempt without files. Attempts that end in vain are
 * what attempts cost. So they are left out, but for a few, where they mostly do.
 *
 * <p>Several threads may write at once. A note that is lost does not matter.
 */
public final class Guess {
    private static final int SLOTS = 1 << 14;
    /** With a smaller part of gets that need no file, one of so many is tried. */
    private static final float MOSTLY = 0.25f;
    private static final int NOW_AND_THEN = 64;
    /** The estimate moves by so much of the difference to each attempt. */
    private static final float STEP = 1 / 16f;

    /** Part of attempts that ended in vain, lately. Two that share a slot share an estimate. */
    private final float[] vain = new float[SLOTS];
    /** Gets that were left out. */
    private final byte[] skipped = new byte[SLOTS];

    private static int slot(int tenant, int region) {
        int mixed = (tenant * 31 + region) * 0x9E3779B9;
        return mixed >>> 32 - Integer.numberOfTrailingZeros(SLOTS);
    }

    /** Whether the next get is worth an attempt. */
    public boolean isWorthIt(int tenant, int region) {
        int slot = slot(tenant, region);
        return 1 - vain[slot] >= MOSTLY || ++skipped[slot] % NOW_AND_THEN == 0;
    }

    /** An attempt was answered, or ended since a file was needed. */
    public void learn(int tenant, int region, boolean answered) {
        int slot = slot(tenant, region);
        vain[slot] += STEP * ((answered ? 0 : 1) - vain[slot]);
    }
}
