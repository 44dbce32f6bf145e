package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A node in Java and the real program {@code headworks controller}, with TLS: each shows a certificate. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ControllerTlsTest {
    private static final Path PROGRAM = Path.of("..", "..", "..", "target", "debug", "headworks-controller").toAbsolutePath().normalize();
    private static final String PASSWORD = "changeit";
    /** Two authorities. One has signed the certificates of the controller and of a node at another host; the other one a stranger's. */
    private static final String CERTIFICATES = """
        set -e
        for authority in ours theirs; do
          openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=$authority -keyout $authority.key -out $authority.pem
        done
        sign() {
          openssl req -newkey rsa:2048 -nodes -subj /CN=$1 -keyout $1.key -out $1.csr
          printf 'subjectAltName=%s' $3 > $1.ext
          openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -CAcreateserial -days 2 -extfile $1.ext -out $1.pem
          openssl pkcs12 -export -in $1.pem -inkey $1.key -name $1 -passout pass:changeit -out $1.p12
        }
        sign controller ours IP:127.0.0.1
        sign node ours DNS:node.example
        sign stranger theirs IP:127.0.0.1
        """;

    @TempDir
    Path directory;

    private final List<Process> processes = new ArrayList<>();
    private String at = "127.0.0.1:0";

    @BeforeEach
    void certificates() throws Exception {
        assumeTrue(Files.isExecutable(PROGRAM), "skipped: headworks-controller is not built (cargo build --workspace)");
        try {
            Process openssl = new ProcessBuilder("sh", "-c", CERTIFICATES).directory(directory.toFile()).redirectErrorStream(true).start();
            String said = new String(openssl.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assumeTrue(!said.contains("openssl: not found"), "skipped: openssl is missing: apt-get install openssl");
            assertEquals(0, openssl.waitFor(), said);
        } catch (IOException missing) {
            assumeTrue(false, "skipped: no shell: " + missing);
        }
        for (String authority : List.of("ours", "theirs")) {
            KeyStore trusted = KeyStore.getInstance("PKCS12");
            trusted.load(null, null);
            try (var pem = Files.newInputStream(directory.resolve(authority + ".pem")); OutputStream out = Files.newOutputStream(trusts(authority))) {
                trusted.setCertificateEntry(authority, CertificateFactory.getInstance("X.509").generateCertificate(pem));
                trusted.store(out, PASSWORD.toCharArray());
            }
        }
    }

    private Path trusts(String authority) {
        return directory.resolve("trusts-" + authority + ".p12");
    }

    @AfterEach
    void end() {
        processes.forEach(Process::destroyForcibly);
    }

    @Test
    void aNodeHearsOfAControllerThatItsAuthorityHasSignedAndOfNoOther() throws Exception {
        Process first = serve("controller");
        set("4");
        Node node = new Node("node", "ours");
        node.says("4000 talks to " + at);

        // A controller of another authority takes its place.
        first.destroyForcibly().waitFor();
        Process wrong = serve("stranger");
        node.says("4000 " + at + ": ", "certification path", "the last weights stay");
        wrong.destroyForcibly().waitFor();

        // The same authority has signed this one, but for another host.
        wrong = serve("node");
        node.says("4000 " + at + ": ", "subject alternative names");
        wrong.destroyForcibly().waitFor();

        serve("controller");
        node.says("4000 talks to " + at);
        set("3");
        node.says("3000 talks to " + at);
    }

    @Test
    void aNodeOfAnotherAuthorityIsRefusedAndGoesOn() throws Exception {
        serve("controller");
        Node stranger = new Node("stranger", "ours");
        stranger.says("1000 " + at + ": ", "the last weights stay");
        // Without TLS it is no better.
        Node plain = new Node(null, null);
        plain.says("1000 " + at + ": ", "the last weights stay");
        Node node = new Node("node", "ours");
        node.says("1000 talks to " + at);
        set("2");
        node.says("2000 talks to " + at);
        for (Node refused : List.of(stranger, plain)) {
            assertTrue(refused.process.isAlive());
            assertTrue(refused.heard.stream().noneMatch(line -> line.contains("talks to") || line.startsWith("2000")), refused.heard.toString());
        }
    }

    /** What a server does that has the plug-in, in a process: it says a tenant's weight, and how it stands with the controller. */
    static final class Server {
        public static void main(String[] arguments) throws InterruptedException {
            Controller.talk("regionserver", arguments[0], "", Boolean.parseBoolean(arguments[1]));
            Tenants.Tenant alice = Scheduler.here().tenants().of("alice");
            String said = "";
            while (true) {
                // A controller tells a node of tenants that have something there.
                alice.used.addAndGet(Resource.HANDLERS.ordinal(), 5_000_000L);
                String now = alice.weight() + " " + Controller.state();
                if (!now.equals(said)) {
                    System.out.println(said = now);
                }
                Thread.sleep(20);
            }
        }
    }

    private final class Node {
        private final Process process;
        private final BufferedReader out;
        private final List<String> heard = new ArrayList<>();

        Node(String certificate, String authority) throws IOException {
            List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx64m"));
            if (certificate != null) {
                command.addAll(List.of("-Djavax.net.ssl.keyStore=" + directory.resolve(certificate + ".p12"), "-Djavax.net.ssl.keyStorePassword=" + PASSWORD,
                    "-Djavax.net.ssl.trustStore=" + trusts(authority), "-Djavax.net.ssl.trustStorePassword=" + PASSWORD));
            }
            command.addAll(List.of("-cp", System.getProperty("java.class.path"), Server.class.getName(), at, "" + (certificate != null)));
            process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            processes.add(process);
            out = process.inputReader(StandardCharsets.UTF_8);
        }

        /** Waits for a line with all of this. */
        void says(String... words) throws IOException {
            String line;
            do {
                line = out.readLine();
                assertNotNull(line, "the node has ended: " + heard);
                heard.add(line);
            } while (!List.of(words).stream().allMatch(line::contains));
        }
    }

    /** Starts a controller that shows this certificate: at any port at first, later at the same. */
    private Process serve(String certificate) throws IOException {
        Path config = directory.resolve("controller.toml");
        Files.writeString(config, "listen = \"" + at + "\"\nperiod_ms = 100\nstate = \"" + directory.resolve("state") + "\"\n[tls]\ncertificate = \""
            + directory.resolve(certificate + ".pem") + "\"\nkey = \"" + directory.resolve(certificate + ".key") + "\"\nclients = \"" + directory.resolve("ours.pem") + "\"\n");
        Process process = new ProcessBuilder(PROGRAM.toString(), "serve", "--config", config.toString())
            .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        processes.add(process);
        String line = process.inputReader(StandardCharsets.UTF_8).readLine();
        assertNotNull(line, "the controller has ended");
        at = line.substring(line.lastIndexOf(' ') + 1);
        return process;
    }

    private void set(String weight) throws Exception {
        Process process = new ProcessBuilder(PROGRAM.toString(), "set", "alice", "--weight", weight, "--controller", at,
            "--certificate", directory.resolve("node.pem").toString(), "--key", directory.resolve("node.key").toString(),
            "--servers", directory.resolve("ours.pem").toString()).redirectErrorStream(true).start();
        String said = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)).readLine();
        assertTrue(said != null && said.contains("is set"), said + ", exit status " + process.waitFor());
    }
}
