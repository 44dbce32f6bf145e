package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A node in Java beside the real program {@code headworks controller}. */
@Timeout(120)
class ControllerProgramTest {
    private static final Path PROGRAM = Path.of("..", "..", "..", "target", "debug", "headworks-controller");
    private static final String WORD = "word-of-the-test";

    @TempDir
    Path directory;

    private final Scheduler scheduler = new Scheduler(1);
    private final Controller node = new Controller(scheduler, "regionserver", "java/1");
    private final Tenants.Tenant alice = scheduler.tenants().of("alice smith");
    private final List<Process> processes = new ArrayList<>();
    private String at = "127.0.0.1:0";
    private Thread talks;

    @AfterEach
    void end() {
        if (talks != null) {
            talks.interrupt();
        }
        processes.forEach(Process::destroyForcibly);
    }

    @Test
    void weightsAreThoseThatWerePushedAndStayWhenTheControllerIsKilled() throws Exception {
        assumeTrue(Files.isExecutable(PROGRAM), "skipped: headworks-controller is not built (cargo build --workspace)");
        Files.writeString(directory.resolve("token"), WORD);
        Process first = serve();
        set("alice smith", "--weight", "4", "--limit", "1000");
        talks = new Thread(() -> node.run(at, directory.resolve("token").toString()));
        talks.setDaemon(true);
        talks.start();
        until("the weight that was set before", () -> alice.weight() == 4_000);
        assertTrue(node.stands().startsWith("talks to "), node.stands());

        set("alice smith", "--weight", "2.5");
        until("a change", () -> alice.weight() == 2_500);

        // What this node says reaches the controller.
        until("what the tenant has here", () -> said("status", "--json").matches("(?s).*\"name\": \"java/1\".*\"tenants\": 1.*"));

        first.destroyForcibly().waitFor();
        until("it is seen that the controller is gone", () -> node.stands().endsWith("the last weights stay"));
        assertEquals(2_500, alice.weight());
        queueAndTake("alice smith");

        // Another one at the same address, with what was kept: its fence is larger.
        serve();
        set("alice smith", "--weight", "3");
        until("the weight of the next controller", () -> alice.weight() == 3_000);
    }

    /** Its fences begin again, and this node has heard a larger one. */
    @Test
    void aControllerWhoseStateWasLostIsHeardAndOneThatStandsStillIsLeft() throws Exception {
        assumeTrue(Files.isExecutable(PROGRAM), "skipped: headworks-controller is not built (cargo build --workspace)");
        Files.writeString(directory.resolve("token"), WORD);
        node.hear("fence 46");
        Process first = serve();
        set("alice smith", "--weight", "4");
        talks = new Thread(() -> node.run(at, directory.resolve("token").toString()));
        talks.setDaemon(true);
        talks.start();
        until("the weight of one that began again", () -> alice.weight() == 4_000);
        assertTrue(node.stands().endsWith("fence 47"), node.stands());
        assertEquals(0, new ProcessBuilder("kill", "-STOP", "" + first.pid()).start().waitFor());
        until("the silence is noticed", () -> node.stands().contains("has said nothing") || node.stands().contains("timed out"));
        assertEquals(0, new ProcessBuilder("kill", "-CONT", "" + first.pid()).start().waitFor());
        set("alice smith", "--weight", "5");
        until("it is heard again", () -> alice.weight() == 5_000);
    }

    @Test
    void aNodeWithAnotherWordIsRefusedAndGoesOn() throws Exception {
        assumeTrue(Files.isExecutable(PROGRAM), "skipped: headworks-controller is not built (cargo build --workspace)");
        Files.writeString(directory.resolve("token"), WORD);
        Files.writeString(directory.resolve("other"), "another");
        serve();
        talks = new Thread(() -> node.run(at, directory.resolve("other").toString()));
        talks.setDaemon(true);
        talks.start();
        until("it is refused", () -> node.stands().contains("token"));
        assertEquals(1_000, alice.weight());
        queueAndTake("alice smith");
    }

    private void queueAndTake(String call) {
        Stages<Object> stages = scheduler.instance(0);
        stages.add(Stage.HANDLE.ordinal(), Tier.USERS, alice.number, alice.weight(), call, 10);
        assertNotNull(stages.poll(Stage.HANDLE.ordinal()));
        assertNull(stages.poll(Stage.HANDLE.ordinal()));
    }

    /** Starts a controller: at any port at first, later at the same. */
    private Process serve() throws IOException {
        Path config = directory.resolve("controller.toml");
        Files.writeString(config, "listen = \"" + at + "\"\nperiod_ms = 100\nstate = \"" + directory.resolve("state")
            + "\"\ntoken_file = \"" + directory.resolve("token") + "\"\n");
        Process process = new ProcessBuilder(PROGRAM.toString(), "serve", "--config", config.toString())
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        processes.add(process);
        String line = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)).readLine();
        assertNotNull(line, "the controller has ended");
        at = line.substring(line.lastIndexOf(' ') + 1);
        return process;
    }

    private void set(String tenant, String... what) {
        List<String> words = new ArrayList<>(List.of("set", tenant));
        words.addAll(List.of(what));
        String answer = said(words.toArray(String[]::new));
        assertTrue(answer.contains("is set"), answer);
    }

    private String said(String... words) {
        List<String> command = new ArrayList<>(List.of(PROGRAM.toString()));
        command.addAll(List.of(words));
        command.addAll(List.of("--controller", at, "--token-file", directory.resolve("token").toString()));
        try {
            Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
            return new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException failed) {
            throw new java.io.UncheckedIOException(failed);
        }
    }

    private void until(String what, BooleanSupplier is) throws InterruptedException {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!is.getAsBoolean()) {
            // A controller tells a node of tenants that have something there.
            alice.used.addAndGet(Resource.HANDLERS.ordinal(), 5_000_000L);
            assertTrue(System.nanoTime() < end, "not after a minute: " + what + "; " + node.stands() + "; weight " + alice.weight());
            Thread.sleep(20);
        }
    }
}
