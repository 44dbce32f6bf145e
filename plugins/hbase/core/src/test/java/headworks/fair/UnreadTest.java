package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
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
        Stages.Taken<Object> taken = stages.poll(HANDLE);
        assertEquals("slow 1", taken.item);
        assertNull(stages.poll(HANDLE), "its response may have as much as the one before");
        over(taken);
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
        over(stages.poll(HANDLE));
        over(stages.poll(HANDLE));
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
            Stages.Taken<Object> taken = stages.poll(HANDLE);
            assertNotNull(taken, "held, with nothing unread");
            over(taken);
        }
    }

    /** Rows of 100 MB: of twenty gets at once one makes its response, and the next one when it was read. */
    @Test
    void whoAsksForRowsBeyondTheBoundHasOneAtATime() {
        unread.setMost(64);
        queue(other, "other");
        over(stages.poll(HANDLE));
        queue(slow, "slow");
        Stages.Taken<Object> taken = stages.poll(HANDLE);
        for (int get = 0; get < 20; get++) {
            queue(slow, "slow");
            queue(other, "other");
        }
        Object response = handOver(unread, slow, 100);
        over(taken);
        for (int get = 0; get < 20; get++) {
            assertEquals("other", stages.poll(HANDLE).item, "others go on");
        }
        for (int get = 0; get < 20; get++) {
            assertNull(stages.poll(HANDLE), "the one before is unread");
            unread.remove(response);
            taken = stages.poll(HANDLE);
            assertNull(stages.poll(HANDLE), "the one before is being made");
            response = handOver(unread, slow, 100);
            over(taken);
        }
    }

    /** Rows of 20: with 25 unread and one in a handler, two more might have 85 together. */
    @Test
    void callsThatRunCountAsWhatTheyAreExpectedToAnswer() {
        unread.setMost(64);
        queue(other, "other");
        queue(slow, "slow 1");
        over(stages.poll(HANDLE));
        over(stages.poll(HANDLE));
        handOver(unread, slow, 20);
        handOver(unread, slow, 5);
        // Of 20, an eighth is forgotten: 18.
        for (int call = 2; call <= 4; call++) {
            queue(slow, "slow " + call);
        }
        Stages.Taken<Object> first = stages.poll(HANDLE);
        assertEquals("slow 2", first.item);
        assertEquals("slow 3", stages.poll(HANDLE).item, "25 + 2 × 18 = 61");
        assertNull(stages.poll(HANDLE), "25 + 3 × 18 = 79");
        over(first);
        assertEquals("slow 4", stages.poll(HANDLE).item);
    }

    /** After a while a tenant of which one client never reads goes beyond the bound: by an eighth of it, again and again, up to what is said. */
    @Test
    void whoWaitsForLongGoesBeyondTheBoundIfItsResponsesAreSmall() {
        Unread patient = new Unread(scheduler, 0, 82);
        patient.setMost(64);
        Tenants.Tenant large = scheduler.tenants().of("large");
        for (Tenants.Tenant tenant : new Tenants.Tenant[] {other, slow, large}) {
            queue(tenant, tenant.name);
            over(stages.poll(HANDLE));
        }
        handOver(patient, slow, 65);
        handOver(patient, large, 65);
        for (int small = 0; small < 40; small++) {
            patient.remove(handOver(patient, slow, 1));
        }
        assertEquals(7, slow.expected, "less than an eighth of it is nothing");
        for (int turn = 0; turn < 30; turn++) {
            queue(slow, "slow");
            queue(large, "large");
            for (Stages.Taken<Object> taken = stages.poll(HANDLE); taken != null; taken = stages.poll(HANDLE)) {
                handOver(patient, taken.item.equals("large") ? large : slow, taken.item.equals("large") ? 65 : 1);
                over(taken);
            }
            assertTrue(slow.unread.get() <= 65 + 8 * turn, "beyond by an eighth of 64 each turn: " + slow.unread);
            assertTrue(turn > 10 || large.unread.get() == 65, "one response may have more than an eighth");
            patient.tick();
        }
        assertEquals(82 - 7 + 1, slow.unread.get(), "one more might have 7, and there may be 82");
        assertEquals(2 * 65, large.unread.get(), "one is served when less is expected, and then it has more than there may be");
    }

    private final List<Object> handedOver = new ArrayList<>();

    /** A response that is kept: one that is forgotten does not count. */
    private Object handOver(Unread to, Tenants.Tenant tenant, long bytes) {
        Object response = new Object();
        handedOver.add(response);
        to.add(response, tenant, bytes);
        return response;
    }

    private void over(Stages.Taken<Object> taken) {
        stages.done(taken, new long[Resource.COUNT]);
    }

    private void handOverAndTake() {
        for (int turn = 0; turn < 2_000; turn++) {
            Object response = new Object();
            unread.add(response, slow, 900);
            unread.remove(response);
        }
    }
}
