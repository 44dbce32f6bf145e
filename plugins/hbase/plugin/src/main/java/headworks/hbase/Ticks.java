package headworks.hbase;

import headworks.fair.Parts;
import headworks.fair.Scheduler;

/**
 * A hundred times a second: tenants that were held go on, if they may. Once a second: who came of late. While calls wait for room
 * at the processors, what runs is looked at a thousand times a second.
 */
final class Ticks extends Thread {
    private static final int PERIOD_MS = 10;
    private static final int A_SECOND = 100;
    /** So many looks follow one that found calls that wait. */
    private static final int LOOKS = 100;
    private static boolean begun;
    private int sinceTick;

    private Ticks() {
        super("headworks-ticks");
        setDaemon(true);
    }

    /** Starts the thread, once. */
    static synchronized void begin() {
        if (!begun) {
            begun = true;
            new Ticks().start();
        }
    }

    @Override
    public void run() {
        try {
            int looks = 0;
            int count = 0;
            while (true) {
                if (looks > 0) {
                    Thread.sleep(1);
                    looks = look() ? LOOKS : looks - 1;
                    if (++sinceTick < PERIOD_MS) {
                        continue;
                    }
                } else {
                    Thread.sleep(PERIOD_MS);
                    looks = look() ? LOOKS : 0;
                }
                sinceTick = 0;
                tick(++count % A_SECOND == 0);
            }
        } catch (InterruptedException stop) {
            // The server stops.
        }
    }

    private boolean look() {
        try {
            return Scheduler.here().look();
        } catch (RuntimeException failed) {
            System.err.println("headworks: what runs was not looked at: " + failed);
            return false;
        }
    }

    private void tick(boolean aSecond) {
        try {
            Scheduler.here().limits().tick();
            Parts.UNREAD.tick();
            if (aSecond) {
                Scheduler.here().tick();
            }
        } catch (RuntimeException failed) {
            // Tenants that are held wait for the next one.
            System.err.println("headworks: a tick failed: " + failed);
        }
    }
}
