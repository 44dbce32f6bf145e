package headworks.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.UUID;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.shaded.protobuf.ProtobufUtil;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.Action;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.MultiRequest;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.MutateRequest;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.MutationProto;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ClientProtos.RegionAction;
import org.apache.hadoop.hbase.shaded.protobuf.generated.HBaseProtos.RegionSpecifier;
import org.apache.hbase.thirdparty.com.google.protobuf.ByteString;
import org.apache.hbase.thirdparty.com.google.protobuf.Message;
import org.junit.jupiter.api.Test;

class CallerTest {
    private static final String SERVER = "hbase";
    private static final RegionSpecifier REGION =
        RegionSpecifier.newBuilder().setType(RegionSpecifier.RegionSpecifierType.REGION_NAME).setValue(ByteString.copyFromUtf8("r")).build();

    /** A put as HBase itself sends it: one that a sink writes has the clusters where it was. */
    private static MutationProto put(boolean fromAnotherCluster) throws Exception {
        Put put = new Put(new byte[] {1});
        put.setAttribute("some", new byte[] {2});
        if (fromAnotherCluster) {
            put.setClusterIds(List.of(UUID.randomUUID()));
        }
        return ProtobufUtil.toMutation(MutationProto.MutationType.PUT, put);
    }

    private static MultiRequest batch(RegionAction.Builder actions) {
        return MultiRequest.newBuilder().addRegionAction(actions.setRegion(REGION)).build();
    }

    private static Message batch(boolean fromAnotherCluster) throws Exception {
        return batch(RegionAction.newBuilder().addAction(Action.newBuilder().setMutation(put(fromAnotherCluster))));
    }

    @Test
    void aSinksBatchIsReplicationAndNoClientsRequestIs() throws Exception {
        Message single = MutateRequest.newBuilder().setRegion(REGION).setMutation(put(true)).build();
        Object[][] cases = {
            // Request, user, the server's own user, whether it is replication.
            {batch(true), SERVER, SERVER, true},
            {batch(false), SERVER, SERVER, false},
            {batch(true), "alice", SERVER, false},
            {batch(true), null, SERVER, false},
            // The server does not know its own user.
            {batch(true), "", "", false},
            {single, SERVER, SERVER, false},
            {batch(RegionAction.newBuilder()), SERVER, SERVER, false},
            {MultiRequest.getDefaultInstance(), SERVER, SERVER, false},
            {null, SERVER, SERVER, false},
        };
        for (Object[] each : cases) {
            assertEquals(each[3], Caller.replicates((Message) each[0], (String) each[1], (String) each[2]), each[1] + ": " + each[0]);
        }
    }
}
