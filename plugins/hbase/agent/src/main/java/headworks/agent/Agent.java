package headworks.agent;

import static net.bytebuddy.matcher.ElementMatchers.isBridge;
import static net.bytebuddy.matcher.ElementMatchers.isConstructor;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.nameEndsWith;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import headworks.fair.Parts;
import headworks.fair.Scheduler;
import headworks.fair.Stage;
import headworks.fair.Status;
import java.lang.instrument.Instrumentation;
import java.util.ArrayList;
import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.pool.TypePool;
import net.bytebuddy.utility.JavaModule;

/**
 * {@code -javaagent:headworks-hbase-agent-1.jar[=permits=N,controller=HOST:PORT;HOST:PORT]}, for region servers and DataNodes. It adds
 * calls at the entries of stages that cannot be configured. What it cannot change it leaves as it is.
 */
public final class Agent {
    private static final String IPC = "org.apache.hadoop.hbase.ipc.";
    private static final String WAL = "org.apache.hadoop.hbase.regionserver.wal.";
    /** It reads blocks of files that are not cached. */
    private static final String FILES = "org.apache.hadoop.hbase.io.hfile.HFileBlock$FSReaderImpl";
    private static final String HDFS = "org.apache.hadoop.hdfs.";
    private static final String DATANODE = HDFS + "server.datanode.";

    /** A method whose entry or exit calls the scheduler. The stage: what is scheduled by that, if anything. */
    private record Change(String type, ElementMatcher<? super MethodDescription> method, Class<?> advice, Stage stage) {
        String what() {
            return type + " for " + advice.getSimpleName();
        }
    }

    private static final Change[] CHANGES = {
        // Region server: stages.
        new Change(IPC + "SimpleRpcServer$Listener", named("doRead"), Advices.Read.class, Stage.READ),
        new Change(IPC + "SimpleRpcServerResponder", named("doRespond"), Advices.RespondSimple.class, Stage.RESPOND),
        new Change(IPC + "NettyServerCall", named("sendResponseIfReady"), Advices.RespondNetty.class, Stage.RESPOND),
        new Change(IPC + "ServerCall", named("done").and(takesArguments(0)), Advices.Taken.class, null),
        // Calls that have had their time while others wait: scans end early, and batches stop between two rows.
        new Change("org.apache.hadoop.hbase.regionserver.ScannerContext", named("checkTimeLimit"), Advices.EndOfScan.class, null),
        new Change(IPC + "ServerCall", named("getResponseExceptionSize"), Advices.RowOfBatch.class, null),
        // What is told of tenants: calls that failed, and connections.
        new Change(IPC + "ServerCall", named("setResponse").and(takesArguments(4)), Advices.Answered.class, null),
        new Change(IPC + "ServerRpcConnection", named("processConnectionHeader"), Advices.Opened.class, null),
        new Change("org.apache.hadoop.hbase.regionserver.HRegion",
            named("batchMutate").and(takesArguments(1)).and(takesArgument(0, nameEndsWith("BatchOperation"))), Advices.Place.class, Stage.LOG),
        new Change("org.apache.hadoop.hbase.regionserver.HRegion",
            named("processRowsWithLocks").and(takesArguments(4)), Advices.Place.class, Stage.LOG),
        // It locks its row before it writes: a place taken below that would be waited for with a locked row.
        new Change("org.apache.hadoop.hbase.regionserver.HRegion", named("checkAndMutateInternal"), Advices.Place.class, Stage.LOG),
        new Change(HDFS + "DFSOutputStream", named("enqueueCurrentPacket"), Advices.Packet.class, Stage.STREAM),
        new Change(FILES, named("readBlockData"), Advices.NeedsFile.class, null),
        // Who does not find a block waits for others that look for it, before the file is read.
        new Change("org.apache.hadoop.hbase.util.IdLock", named("getLockEntry"), Advices.NeedsFile.class, null),
        // Region server: for whom files are read and written.
        new Change(HDFS + "client.impl.BlockReaderRemote", named("newBlockReader"), Advices.NameOfReader.class, null),
        new Change(HDFS + "protocol.datatransfer.Sender", named("writeBlock"), Advices.NameOfWriter.class, null),
        new Change("org.apache.hadoop.hbase.io.asyncfs.FanOutOneBlockAsyncDFSOutputHelper",
            named("connectToDataNodes"), Advices.NameOfAsyncWriter.class, null),
        new Change(HDFS + "DataStreamer", isConstructor(), Advices.StreamerMade.class, null),
        new Change(HDFS + "DataStreamer", named("run"), Advices.StreamerRuns.class, null),
        new Change("org.apache.hadoop.hbase.regionserver.HRegion", named("internalFlushCacheAndCommit"), Advices.Flush.class, null),
        new Change(WAL + "FSHLog", named("createWriterInstance").and(not(isBridge())), Advices.LogFile.class, null),
        new Change(WAL + "AsyncFSWAL", named("createWriterInstance").and(not(isBridge())), Advices.LogFile.class, null),
        // DataNode.
        new Change(DATANODE + "DataXceiver", named("readBlock"), Advices.TenantOfRead.class, null),
        new Change(DATANODE + "DataXceiver", named("writeBlock"), Advices.TenantOfWrite.class, null),
        new Change(DATANODE + "FileIoProvider", named("transferToSocketFully"), Advices.ReadFirst.class, Stage.XCEIVE),
        new Change(DATANODE + "fsdataset.ReplicaOutputStreams", named("writeDataToDisk"), Advices.WritePacket.class, Stage.XCEIVE),
    };

    private Agent() {}

    public static void premain(String arguments, Instrumentation instrumentation) {
        try {
            if (Status.loaded() != Status.VERSION) {
                throw new IllegalStateException("the plug-in's jar has version " + Status.loaded() + ", and the agent's " + Status.VERSION
                    + ": copy both jars of one version");
            }
            Options.read(arguments == null ? "" : arguments, System.getProperties()).apply();
            install(instrumentation);
            Status.agentIsThere(Status.VERSION);
            Status.publish();
            System.err.println("headworks: the agent is installed");
            // It reads classes from jars: the server does not wait for that.
            Thread looks = new Thread(() -> check(ClassLoader.getSystemClassLoader()), "headworks-agent-looks");
            looks.setDaemon(true);
            looks.start();
        } catch (Throwable failed) {
            System.err.println("headworks: the agent is not installed, and the server goes on as without it: " + failed);
        }
    }

    private static void install(Instrumentation instrumentation) {
        AgentBuilder builder = new AgentBuilder.Default()
            .disableClassFormatChanges()
            .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .with(new Told());
        for (Change change : CHANGES) {
            builder = builder.type(named(change.type)).transform((made, type, loader, module, domain) ->
                made.visit(Advice.to(change.advice).on(change.method)));
        }
        builder.installOn(instrumentation);
    }

    /**
     * Looks for each method that this kind of server has. A class that is not loaded yet, or that a later version has given
     * another name, would be noticed by nothing else.
     */
    static List<String> check(ClassLoader loader) {
        boolean dataNode = System.getProperty("sun.java.command", "").contains("DataNode");
        List<String> lacks = new ArrayList<>();
        TypePool types = TypePool.Default.of(loader);
        for (Change change : CHANGES) {
            if (change.type.startsWith(DATANODE) != dataNode) {
                continue;
            }
            TypePool.Resolution found = types.describe(change.type);
            if (!found.isResolved()) {
                lacks.add(change.what() + ": there is no such class");
            } else if (found.resolve().getDeclaredMethods().filter(change.method).isEmpty()) {
                lacks.add(change.what() + ": there is no such method");
            }
        }
        lacks.forEach(words -> {
            Status.lacks(words);
            System.err.println("headworks: not changed: " + words);
        });
        return lacks;
    }

    /** Notes which stages are there, and says what could not be changed. */
    private static final class Told extends AgentBuilder.Listener.Adapter {
        @Override
        public void onTransformation(TypeDescription type, ClassLoader loader, JavaModule module, boolean loaded, DynamicType dynamic) {
            for (Change change : CHANGES) {
                if (!change.type.equals(type.getName())) {
                    continue;
                }
                if (type.getDeclaredMethods().filter(change.method).isEmpty()) {
                    lacks(change, "this version of HBase or HDFS has no such method: " + change.method);
                    continue;
                }
                if (FILES.equals(change.type)) {
                    Parts.filesAreSeen();
                }
                if (change.stage != null) {
                    Scheduler.here().figures().install(change.stage);
                }
            }
        }

        @Override
        public void onError(String name, ClassLoader loader, JavaModule module, boolean loaded, Throwable failed) {
            for (Change change : CHANGES) {
                if (change.type.equals(name)) {
                    lacks(change, "its code could not be changed: " + failed);
                }
            }
        }

        private static void lacks(Change change, String reason) {
            Status.lacks(change.what() + ": " + reason);
            System.err.println("headworks: not changed: " + change.what() + ": " + reason);
            if (change.stage != null) {
                Scheduler.here().figures().lacks(change.stage, reason);
            }
        }
    }
}
