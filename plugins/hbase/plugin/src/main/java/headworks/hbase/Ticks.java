package headworks.hbase;

import headworks.fair.Parts;
import headworks.fair.Scheduler;

/** A hundred times a second: tenants that were held go on, if they may. Once a second: who came of late. */
final class Ticks extends Thread {
    private static final int PERIOD_MS = 10;
    private static final int A_SECOND = 100;
    private static boolean begun;

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
            for (int count = 1; true; count++) {
                Thread.sleep(PERIOD_MS);
                try {
                    Scheduler.here().limits().tick();
                    Parts.UNREAD.tick();
                    if (count % A_SECOND == 0) {
                        Scheduler.here().tick();
                    }
                } catch (RuntimeException failed) {
                    // Tenants that are held wait for the next one.
                    System.err.println("headworks: a tick failed: " + failed);
                }
            }
        } catch (InterruptedException stop) {
            // The server stops.
        }
    }
}
