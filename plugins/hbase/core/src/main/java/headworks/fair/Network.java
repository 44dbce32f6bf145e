package headworks.fair;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * The bandwidth that RPC Respond and Data Stream share. What is sent goes in fair order, at a rate that
 * the operator names. Without a rate the network is not what requests wait for, and nothing is ordered.
 *
 * <p>A parcel never waits for its receiver: it is handed over to the server's own queue of the
 * connection. So one client that does not read delays no other.
 */
public final class Network extends Thread {
    /** What may be sent at once after a pause, in nanoseconds of the rate. */
    private static final long BURST_NS = 5_000_000;
    /** Longest time for which one parcel keeps others back. */
    private static final long LONGEST_PARCEL_NS = 100_000_000;

    private final Scheduler scheduler;
    private final Stages<Object> instance;
    private final Semaphore queued = new Semaphore(0);
    private volatile long bytesPerSecond;
    /** When all that was sent so far is through. Guarded by this. */
    private long through = System.nanoTime();

    /** Bytes that are to be sent. */
    public abstract static class Parcel {
        final Tenants.Tenant tenant;
        final long bytes;

        protected Parcel(Tenants.Tenant tenant, long bytes) {
            this.tenant = tenant;
            this.bytes = bytes;
        }

        /** Hands it over. Never waits. */
        protected abstract void send();
    }

    public Network(Scheduler scheduler) {
        super("headworks-network");
        this.scheduler = scheduler;
        instance = scheduler.of(Stage.RESPOND);
        setDaemon(true);
        setRate(0);
    }

    /** Sets the bandwidth to divide; 0: it is not divided. */
    public synchronized void setRate(long rate) {
        bytesPerSecond = Math.max(0, rate);
        for (Stage stage : new Stage[] {Stage.RESPOND, Stage.STREAM}) {
            if (rate > 0) {
                scheduler.figures().enforce(stage);
            } else {
                scheduler.figures().release(stage, "headworks.network.bytes-per-second is not set");
            }
        }
        if (rate > 0 && getState() == State.NEW) {
            start();
        }
    }

    /** Whether bytes are charged here. */
    public boolean paced() {
        return bytesPerSecond > 0 && scheduler.several() && isAlive();
    }

    /** Sends it later, in fair order. {@code false}: the caller sends it at once. */
    public boolean later(Stage stage, Tier tier, Parcel parcel) {
        long rate = bytesPerSecond;
        if (rate == 0 || Thread.currentThread() == this) {
            return false;
        }
        boolean alone = !scheduler.several() && (parcel.tenant.nameless && tier == Tier.USERS || !instance.shared(tier, parcel.tenant.number));
        if (alone || !isAlive()) {
            return false;
        }
        if (queued.availablePermits() == 0 && spend(parcel.bytes, rate)) {
            scheduler.chargeOthers(null, tier, parcel.tenant, Resource.NETWORK, scheduler.part(time(parcel.bytes, rate)));
            scheduler.figures().served(stage, parcel.tenant);
            return false;
        }
        instance.add(stage.ordinal(), tier, parcel.tenant.number, parcel.tenant.weight(), parcel, Integer.MAX_VALUE);
        scheduler.figures().waits(stage);
        queued.release();
        return true;
    }

    /** The calling thread waits until its bytes may be sent, five seconds at most. */
    public void await(Stage stage, Tier tier, Tenants.Tenant tenant, long bytes) {
        Semaphore sent = new Semaphore(0);
        boolean waits = later(stage, tier, new Parcel(tenant, bytes) {
            @Override
            protected void send() {
                sent.release();
            }
        });
        try {
            if (waits && !sent.tryAcquire(Gate.LONGEST_WAIT_NS, TimeUnit.NANOSECONDS)) {
                scheduler.figures().passes(stage);
            }
        } catch (InterruptedException stop) {
            // The server stops: the thread goes on, and keeps the mark.
            Thread.currentThread().interrupt();
        }
    }

    /** If the network is idle, takes it for so many bytes. */
    private synchronized boolean spend(long bytes, long rate) {
        long now = System.nanoTime();
        if (through - now > 0) {
            return false;
        }
        book(now, bytes, rate);
        return true;
    }

    private synchronized void book(long now, long bytes, long rate) {
        long from = through - (now - BURST_NS) > 0 ? through : now - BURST_NS;
        through = from + Math.min(LONGEST_PARCEL_NS, time(bytes, rate));
    }

    private static long time(long bytes, long rate) {
        return (long) (1e9 * bytes / rate);
    }

    private synchronized long idleAt() {
        return through;
    }

    @Override
    public void run() {
        scheduler.figures().works(Stage.RESPOND);
        scheduler.figures().works(Stage.STREAM);
        while (true) {
            try {
                queued.acquire();
                for (long left = idleAt() - System.nanoTime(); left > 0 && bytesPerSecond > 0; left = idleAt() - System.nanoTime()) {
                    TimeUnit.NANOSECONDS.sleep(Math.min(left, LONGEST_PARCEL_NS));
                }
                sendNext();
            } catch (InterruptedException | RuntimeException | Error failed) {
                // One parcel failed, and its connection says so. The others go on.
                System.err.println("headworks: a response could not be handed over: " + failed);
            }
        }
    }

    private void sendNext() {
        Stages.Taken<Object> taken = instance.poll(Stage.RESPOND.ordinal(), Stage.STREAM.ordinal());
        if (taken == null) {
            return;
        }
        Parcel parcel = (Parcel) taken.item;
        long rate = Math.max(1, bytesPerSecond == 0 ? Long.MAX_VALUE : bytesPerSecond);
        book(System.nanoTime(), parcel.bytes, rate);
        long ofAll = time(parcel.bytes, rate);
        long[] cost = new long[Resource.COUNT];
        cost[Resource.NETWORK.ordinal()] = scheduler.part(ofAll);
        instance.done(taken, cost);
        scheduler.chargeOthers(instance, taken.tier(), parcel.tenant, Resource.NETWORK, scheduler.part(ofAll));
        cost[Resource.NETWORK.ordinal()] = ofAll;
        scheduler.figures().served(taken.stage(), parcel.tenant);
        scheduler.figures().used(parcel.tenant, cost);
        parcel.send();
    }
}
