package headworks.agent;

import headworks.fair.Here;
import headworks.fair.Parts;
import headworks.fair.Slice;
import headworks.fair.Tier;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import net.bytebuddy.asm.Advice;
import org.apache.hadoop.hbase.ipc.HeadworksCalls;
import org.apache.hadoop.hbase.regionserver.HeadworksScans;
import org.apache.hadoop.hdfs.HeadworksPackets;

/**
 * Code that is copied into methods of HBase and HDFS. It only calls what is elsewhere. Whatever goes wrong there, the server's
 * own code goes on: a method may be missing where two jars are of different versions.
 */
final class Advices {
    private Advices() {}

    /** RPC Read: another thread reads the connection, when it is its turn. */
    static final class Read {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class, suppress = Throwable.class)
        static boolean enter(@Advice.This Object listener, @Advice.Argument(0) SelectionKey key) {
            return HeadworksCalls.readLater(listener, key);
        }
    }

    /** RPC Respond in the classic server. */
    static final class RespondSimple {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class, suppress = Throwable.class)
        static boolean enter(@Advice.Argument(0) Object connection, @Advice.Argument(1) Object response) {
            return HeadworksCalls.respondLater(connection, response);
        }
    }

    /** RPC Respond in the server with event loops. Below this call, HBase 2.5 and 2.6 differ. */
    static final class RespondNetty {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class, suppress = Throwable.class)
        static boolean enter(@Advice.FieldValue("connection") Object connection, @Advice.This Object call) {
            return HeadworksCalls.respondLater(connection, call);
        }
    }

    /** A response has gone out, or its connection is closed. */
    static final class Taken {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object call) {
            Parts.UNREAD.remove(call);
        }
    }

    /**
     * A scan that has had its time ends as after its time limit. HBase has a mark for that, which it sets where a scan must end for
     * other reasons. It stays set: a scan asks again on its way out.
     */
    static final class EndOfScan {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object context, @Advice.FieldValue(value = "returnImmediately", readOnly = false) boolean ends) {
            if (!ends && HeadworksScans.ends(context)) {
                ends = true;
            }
        }
    }

    /** HBase asks for this size between two rows of a batch, and nowhere else. No lock is held there. */
    static final class RowOfBatch {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter() {
            Slice.row();
        }
    }

    /** A call is answered, whether well or not. */
    static final class Answered {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object call, @Advice.Argument(0) Object answer, @Advice.Argument(2) Throwable failed) {
            HeadworksCalls.answered(call, answer, failed);
        }
    }

    /** A connection has said whose it is. */
    static final class Opened {
        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.This Object connection) {
            HeadworksCalls.opened(connection);
        }
    }

    /** Log append: a write has a place below the ordered log, from before its row locks until it is durable. */
    static final class Place {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter() {
            return Log.enter();
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
        static void exit(@Advice.Enter Object place) {
            Log.leave(place);
        }
    }

    /** Data Stream: a packet is queued for DataNodes when it is its turn. */
    static final class Packet {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object stream) {
            HeadworksPackets.await(stream);
        }
    }

    /** A block is not in the cache: an attempt to do without files is over. What this throws is meant for the server. */
    static final class NeedsFile {
        @Advice.OnMethodEnter
        static void enter() throws IOException {
            if (Here.ends()) {
                throw new IOException("headworks: the block is not cached, and the call is served again by a handler");
            }
        }
    }

    /** The reader's client name carries the tenant. */
    static final class NameOfReader {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(value = 6, readOnly = false) String clientName) {
            clientName = Names.mark(clientName);
        }
    }

    /** The writer's does, too. */
    static final class NameOfWriter {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(value = 3, readOnly = false) String clientName) {
            clientName = Names.mark(clientName);
        }
    }

    /** And that of the default log's own writer. */
    static final class NameOfAsyncWriter {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(value = 2, readOnly = false) String clientName) {
            clientName = Names.mark(clientName);
        }
    }

    /** A thread that sends a file's packets is made by one that knows for whom. */
    static final class StreamerMade {
        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.This Thread streamer) {
            Names.bind(streamer);
        }
    }

    /** See {@link StreamerMade}. */
    static final class StreamerRuns {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Thread streamer) {
            Names.take(streamer);
        }
    }

    /** The file of a write-ahead log is written for all of its tenants. */
    static final class LogFile {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static String enter(@Advice.Argument(0) Object path) {
            String before = Here.name();
            Here.set(Names.log(String.valueOf(path)));
            return before;
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
        static void exit(@Advice.Enter String before) {
            Here.set(before);
        }
    }

    /** A flush is made by threads of several kinds, for all tenants of a region. */
    static final class Flush {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static String enter() {
            String before = Here.name();
            Here.set(Tier.FLUSH);
            return before;
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
        static void exit(@Advice.Enter String before) {
            Here.set(before);
        }
    }

    /** In the DataNode: the thread works for the tenant while it serves the read. */
    static final class TenantOfRead {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(2) String clientName) {
            Here.set(Names.tenant(clientName));
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
        static void exit() {
            Here.set(null);
        }
    }

    /** The same for a write, which lasts as long as the block. */
    static final class TenantOfWrite {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(3) String clientName) {
            Here.set(Names.tenant(clientName));
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
        static void exit() {
            Here.set(null);
        }
    }

    /** A packet is read in fair order before it is sent. */
    static final class ReadFirst {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(2) FileChannel file, @Advice.Argument(3) long position, @Advice.Argument(4) int count) {
            Xceiver.beforeSend(file, position, count);
        }
    }

    /** A packet that was received is written in fair order. */
    static final class WritePacket {
        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter() {
            return Xceiver.beforeWrite();
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
        static void exit(@Advice.Enter Object work) {
            Xceiver.afterWrite(work);
        }
    }
}
