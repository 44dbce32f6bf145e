package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.Test;

class TenantsTest {
    private final Scheduler scheduler = new Scheduler(1);
    private final Tenants tenants = scheduler.tenants();
    private final Controller controller = new Controller(scheduler, "regionserver", "here");

    private Tenants.Tenant client(String name, String account) {
        return tenants.client(name.getBytes(StandardCharsets.UTF_8), account);
    }

    private void look(int times) {
        for (int time = 0; time < times; time++) {
            tenants.look();
        }
    }

    @Test
    void theFilesWeightsHoldUntilAControllerSaysSomething() {
        Tenants.Tenant alice = tenants.of("alice");
        tenants.setWeights(Map.of("alice", 3_000, "bob", 2_000), false);
        assertEquals(3_000, alice.weight());
        assertEquals(2_000, tenants.of("bob").weight());
        controller.hear("weight 7.000 alice");
        tenants.setWeights(Map.of("alice", 4_000, "bob", 5_000), false);
        assertEquals(7_000, alice.weight(), "the controller's goes before the file's");
        assertEquals(5_000, tenants.of("bob").weight());
        tenants.setWeights(Map.of("alice", 4_000), true);
        assertEquals(4_000, alice.weight(), "there is no controller any more");
    }

    @Test
    void whoDoesNotComeIsForgottenAndItsNumberIsAnothers() {
        Tenants.Tenant job = tenants.of("job-1");
        controller.hear("limit 1.0 job-1");
        scheduler.figures().fails(job, "SomeException");
        job.used.addAndGet(Resource.CPU.ordinal(), 500_000_000);
        assertEquals("use 0.500 - job-1\nreport\n", controller.report(1));
        Tenants.Tenant stays = tenants.of("stays");
        scheduler.instance(0).add(Stage.HANDLE.ordinal(), Tier.USERS, stays.number, 1, "call", 10);
        look(10);
        assertSame(stays, tenants.of("stays"), "it has a call that waits");
        assertEquals("use 0.000 - job-1\nuse 0.000 w stays\nreport\n", sorted(controller.report(1)));
        Tenants.Tenant next = tenants.of("job-2");
        assertEquals(job.number, next.number);
        assertSame(next, tenants.of(next.number));
        assertTrue(!scheduler.figures().tenants(10).contains("SomeException"), "what job-1 had is not job-2's");
        scheduler.limits().took(next.number, 1);
        scheduler.limits().took(next.number, 1);
        scheduler.instance(0).poll(Stage.HANDLE.ordinal());
        scheduler.instance(0).add(Stage.HANDLE.ordinal(), Tier.USERS, next.number, 1, "mine", 10);
        assertEquals("mine", scheduler.instance(0).poll(Stage.HANDLE.ordinal()).item, "nor is its limit");
    }

    private static String sorted(String lines) {
        return String.join("\n", lines.lines().sorted(java.util.Comparator.comparing((String line) -> line.equals("report")).thenComparing(line -> line)).toList()) + "\n";
    }

    @Test
    void oneAccountsNamesDoNotEndTheIsolationOfOthers() {
        Tenants.Tenant last = null;
        for (int number = 0; number < 2 * Tenants.MOST; number++) {
            last = client("name-" + number, "mallory");
        }
        assertEquals("mallory", last.name, "beyond its bound an account is told as itself");
        assertEquals("platinum", client("platinum", "bob").name);
        assertEquals("carol", tenants.client("carol").name);
        look(10);
        assertEquals("name-x", client("name-x", "mallory").name, "what was forgotten leaves room");
    }

    @Test
    void namesAreTheSameAtEachEndWhateverTheyHold() {
        String longest = "é".repeat(256);
        for (String name : new String[] {"alice", "x#t=gold", "Zoë Müller", "50%41", "a,b=c;d\"$`", longest, "\ud83d\ude00"}) {
            String word = Escape.word(name);
            assertTrue(word.matches("[A-Za-z0-9._@/+:()%-]*"), word);
            assertEquals(name, Escape.name(word));
            assertEquals(name, Escape.client(name));
        }
        assertEquals("x%23t%3Dgold%2C%20Zo%C3%AB", Escape.word("x#t=gold, Zoë"), "as the program writes it");
        assertEquals(longest, Escape.client(longest + "more"));
        assertEquals("a%0Afence 9", Escape.client("a\nfence 9"));
        assertNotEquals(Tier.LOG, client("(log)", "bob").name, "no client may take the name of work that has none");
        assertTrue(!client("(log)", "bob").nameless && !tenants.client("(flush)").nameless);
        for (String odd : new String[] {"%", "%4", "%zz", "a%"}) {
            assertEquals(odd, Escape.name(odd));
        }
    }
}
