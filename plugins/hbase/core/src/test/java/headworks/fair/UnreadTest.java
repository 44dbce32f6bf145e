package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.Test;

class UnreadTest {
    private static final int HANDLE = Stage.HANDLE.ordinal();

    private final Scheduler scheduler = new Scheduler(1);
    private final Stages<Object> stages = scheduler.instance(0);
    private final Unread unread = new Unread(scheduler);
    private final Tenants.Tenant slow = scheduler.tenants().of("slow");
    private final Tenants.Tenant other = scheduler.tenants().of("other");

    private void queue(Tenants.Tenant tenant, String call) {
        stages.add(HANDLE, Tier.USERS, tenant.number, tenant.weight(), call, 100);
    }

    @Test
    void whoDoesNotReadWaitsAlone() {
        unread.setMost(1_000);
        queue(slow, "slow 1");
        queue(other, "other 1");
        Object first = new Object();
        Object second = new Object();
        unread.add(first, slow, 900);
        unread.add(first, slow, 900);
        unread.add(second, slow, 900);
        assertEquals("other 1", stages.poll(HANDLE).item);
        assertNull(stages.poll(HANDLE), "the slow client's call is kept");
        queue(slow, "slow 2");
        queue(other, "other 2");
        assertEquals("other 2", stages.poll(HANDLE).item);
        unread.remove(first);
        unread.remove(first);
        assertEquals("slow 1", stages.poll(HANDLE).item);
        assertEquals("slow 2", stages.poll(HANDLE).item);
        unread.remove(second);
        assertEquals(0, slow.unread.get());
    }

    @Test
    void aResponseThatIsForgottenDoesNotCountForEver() {
        unread.setMost(1_000);
        queue(slow, "slow 1");
        queue(other, "other 1");
        unread.add(new Object(), slow, 5_000);
        long end = System.nanoTime() + 20_000_000_000L;
        while (slow.unread.get() > 0 && System.nanoTime() < end) {
            System.gc();
            unread.tick();
        }
        assertEquals(0, slow.unread.get());
        assertNotNull(stages.poll(HANDLE));
        assertNotNull(stages.poll(HANDLE));
    }

    @Test
    void aLargerBoundLetsGoOn() {
        unread.setMost(1_000);
        queue(slow, "slow 1");
        queue(other, "other 1");
        Object response = new Object();
        unread.add(response, slow, 5_000);
        stages.poll(HANDLE);
        assertNull(stages.poll(HANDLE));
        unread.setMost(0);
        assertNotNull(stages.poll(HANDLE));
        unread.remove(response);
    }

    /** Responses are handed over and taken by many threads at once: at the end nobody is held. */
    @Test
    void whoHasReadAllIsNotHeld() throws Exception {
        unread.setMost(1_000);
        queue(slow, "slow");
        queue(other, "other");
        assertNotNull(stages.poll(HANDLE));
        assertNotNull(stages.poll(HANDLE));
        Thread[] threads = new Thread[3];
        for (int round = 0; round < 20; round++) {
            for (int number = 0; number < threads.length; number++) {
                threads[number] = new Thread(this::handOverAndTake);
                threads[number].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            queue(slow, "slow");
            assertEquals(0, slow.unread.get());
            assertNotNull(stages.poll(HANDLE), "held, with nothing unread");
        }
    }

    private void handOverAndTake() {
        for (int turn = 0; turn < 2_000; turn++) {
            Object response = new Object();
            unread.add(response, slow, 900);
            unread.remove(response);
        }
    }
}
