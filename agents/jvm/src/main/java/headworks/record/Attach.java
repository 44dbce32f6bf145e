package headworks.record;

import com.sun.tools.attach.VirtualMachine;
import java.nio.file.Path;

/** {@code java -jar record-agent.jar PID SECONDS FILE} has the virtual machine PID count. */
public final class Attach {
    private Attach() {}

    public static void main(String[] words) throws Exception {
        if (words.length != 3) {
            System.err.println("usage: java -jar record-agent.jar PID SECONDS FILE");
            System.exit(2);
        }
        Path own = Path.of(Attach.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        VirtualMachine machine = VirtualMachine.attach(words[0]);
        try {
            machine.loadAgent(own.toAbsolutePath().toString(),
                    words[1] + " " + Path.of(words[2]).toAbsolutePath());
        } finally {
            machine.detach();
        }
    }
}
