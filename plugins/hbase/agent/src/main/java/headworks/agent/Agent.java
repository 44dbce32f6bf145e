package headworks.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;

import headworks.fair.Here;
import java.lang.instrument.Instrumentation;
import java.nio.channels.FileChannel;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.utility.JavaModule;

/**
 * {@code -javaagent:headworks-hbase-agent-1.jar[=permits=N]}, for region servers and DataNodes. It adds
 * calls at the entries of stages that cannot be configured. What it cannot change it leaves as it is.
 */
public final class Agent {
    private static final String DATANODE = "org.apache.hadoop.hdfs.server.datanode.";

    private Agent() {}

    public static void premain(String arguments, Instrumentation instrumentation) {
        try {
            configure(arguments == null ? "" : arguments);
            install(instrumentation);
            System.err.println("headworks: the agent is installed");
        } catch (Throwable failed) {
            System.err.println("headworks: the agent is not installed, and the server goes on as without it: " + failed);
        }
    }

    private static void configure(String arguments) {
        for (String argument : arguments.split(",")) {
            if (argument.startsWith("permits=")) {
                Xceiver.setPermits(Math.max(1, Integer.parseInt(argument.substring("permits=".length()))));
            } else if (!argument.isBlank()) {
                System.err.println("headworks: the agent does not know \"" + argument + "\". It knows permits=N");
            }
        }
    }

    private static void install(Instrumentation instrumentation) {
        new AgentBuilder.Default()
            .disableClassFormatChanges()
            .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .with(new Failures())
            .type(named("org.apache.hadoop.hdfs.client.impl.BlockReaderRemote"))
            .transform((builder, type, loader, module, domain) ->
                builder.visit(Advice.to(NameOfReader.class).on(named("newBlockReader"))))
            .type(named(DATANODE + "DataXceiver"))
            .transform((builder, type, loader, module, domain) ->
                builder.visit(Advice.to(TenantOfRead.class).on(named("readBlock"))))
            .type(named(DATANODE + "FileIoProvider"))
            .transform((builder, type, loader, module, domain) ->
                builder.visit(Advice.to(ReadFirst.class).on(named("transferToSocketFully"))))
            .installOn(instrumentation);
    }

    /** Says which class could not be changed. */
    private static final class Failures extends AgentBuilder.Listener.Adapter {
        @Override
        public void onError(String name, ClassLoader loader, JavaModule module, boolean loaded, Throwable failed) {
            System.err.println("headworks: " + name + " stays as it is, and its stage is not scheduled: " + failed);
        }
    }

    /** In the region server: the reader's client name carries the tenant. */
    static final class NameOfReader {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 6, readOnly = false) String clientName) {
            clientName = Names.mark(clientName);
        }
    }

    /** In the DataNode: the thread works for the tenant while it serves the read. */
    static final class TenantOfRead {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(2) String clientName) {
            Here.set(Names.tenant(clientName));
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit() {
            Here.set(null);
        }
    }

    /** In the DataNode: a packet is read in fair order before it is sent. */
    static final class ReadFirst {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(2) FileChannel file, @Advice.Argument(3) long position, @Advice.Argument(4) int count) {
            Xceiver.beforeSend(file, position, count);
        }
    }
}
