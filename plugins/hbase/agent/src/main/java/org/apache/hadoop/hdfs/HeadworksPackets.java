package org.apache.hadoop.hdfs;

import headworks.agent.Names;
import headworks.fair.Parts;
import headworks.fair.Scheduler;
import headworks.fair.Stage;
import headworks.fair.Tier;

/** Data Stream: what the agent needs of classes of this package. */
public final class HeadworksPackets {
    private static final int CHUNK = 512;

    private HeadworksPackets() {}

    /** The stream's packet waits for its turn. Whatever goes wrong here, it is sent. */
    public static void await(Object stream) {
        if (!Scheduler.here().several()) {
            return;
        }
        try {
            DFSPacket packet = ((DFSOutputStream) stream).currentPacket;
            String name = Names.here();
            if (packet != null && name != null) {
                long bytes = (long) CHUNK * Math.max(1, packet.getNumChunks());
                Parts.NETWORK.await(Stage.STREAM, Tier.of(name), Scheduler.here().tenants().of(name), bytes);
            }
        } catch (RuntimeException | LinkageError unknown) {
            // A version of HDFS that is otherwise: the packet goes on as ever.
        }
    }
}
