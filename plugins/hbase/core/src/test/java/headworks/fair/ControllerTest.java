package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class ControllerTest {
    private final Scheduler scheduler = new Scheduler(1);
    private final Controller controller = new Controller(scheduler, "regionserver", "here");
    private final Tenants.Tenant alice = scheduler.tenants().of("alice smith");

    @Test
    void weightsOfTheLatestControllerAreTaken() {
        assertNull(controller.hear("fence 7"));
        assertNull(controller.hear("weight 4.000 alice smith"));
        assertNull(controller.hear("weight 0.0000001 bob"));
        assertNull(controller.hear("end"));
        assertEquals(4_000, alice.weight());
        assertEquals(1, scheduler.tenants().of("bob").weight());
        assertTrue(controller.hear("fence 6").contains("6 is smaller than 7"), "it was in office before");
        assertNull(controller.hear("beat 10"));
        assertNull(controller.hear("a word of a later version"));
        for (String nonsense : new String[] {"weight NaN alice smith", "weight Infinity alice smith", "weight -1 alice smith", "limit NaN alice smith"}) {
            assertNull(controller.hear(nonsense));
        }
        assertNotNull(controller.hear("error another controller is in office"));
        assertNotNull(controller.hear("weight x y"));
        assertNotNull(controller.hear(null));
        assertEquals(4_000, alice.weight(), "the last weights stay");
    }

    @Test
    void onlyWhatChangedIsReported() {
        assertEquals("report\n", controller.report(1));
        alice.used.addAndGet(Resource.CPU.ordinal(), 250_000_000);
        alice.used.addAndGet(Resource.HANDLERS.ordinal(), 500_000_000);
        assertEquals("use 0.500 - alice smith\nreport\n", controller.report(1));
        alice.used.addAndGet(Resource.HANDLERS.ordinal(), 510_000_000);
        assertEquals("report\n", controller.report(1));
        scheduler.instance(0).add(1, Tier.USERS, alice.number, 1, "call", 10);
        alice.used.addAndGet(Resource.HANDLERS.ordinal(), 500_000_000);
        assertEquals("use 0.500 w alice smith\nreport\n", controller.report(1));
        scheduler.instance(0).poll(1);
        assertEquals("use 0.000 - alice smith\nreport\n", controller.report(1));
        assertEquals("report\n", controller.report(1));
    }

    @Test
    void aTenantThatHasHadItsLimitWaitsAlone() throws Exception {
        int handle = Stage.HANDLE.ordinal();
        Stages<Object> stages = scheduler.instance(0);
        assertNull(controller.hear("limit 2.0 alice smith"));
        for (int at = 0; at < 4; at++) {
            stages.add(handle, Tier.USERS, alice.number, 1, "alice", 10);
        }
        int had = 0;
        while (stages.poll(handle) != null) {
            scheduler.limits().took(alice.number, 1);
            had++;
        }
        assertEquals(2, had, "one at once, and one that is owed");
        stages.add(handle, Tier.USERS, scheduler.tenants().of("bob").number, 1, "bob", 10);
        assertEquals("bob", stages.poll(handle).item);
        while (stages.poll(handle) == null) {
            Thread.sleep(5);
            scheduler.limits().tick();
        }
        assertNull(controller.hear("limit - alice smith"));
        assertNotNull(stages.poll(handle));
    }
}
