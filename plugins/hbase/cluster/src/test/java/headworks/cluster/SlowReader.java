package headworks.cluster;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.shaded.protobuf.RequestConverter;
import org.apache.hadoop.hbase.shaded.protobuf.generated.RPCProtos.ConnectionHeader;
import org.apache.hadoop.hbase.shaded.protobuf.generated.RPCProtos.RequestHeader;
import org.apache.hadoop.hbase.shaded.protobuf.generated.RPCProtos.ResponseHeader;
import org.apache.hadoop.hbase.shaded.protobuf.generated.RPCProtos.UserInformation;

/** A client that asks for many rows at once, and reads the answers when it is told to. HBase's own client reads at once. */
final class SlowReader implements AutoCloseable {
    /** What the kernel takes is not what a server holds. */
    private static final int KERNEL_BYTES = 128 << 10;
    private static final int PATIENCE_MS = 30_000;
    private static final int VERSION = 0;
    /** By which HBase names the authentication without one. */
    private static final int SIMPLE = 80;

    private final Socket socket = new Socket();
    private final DataOutputStream out;
    private final DataInputStream in;

    SlowReader(int port, String user) throws IOException {
        socket.setReceiveBufferSize(KERNEL_BYTES);
        socket.connect(new InetSocketAddress("127.0.0.1", port));
        socket.setSoTimeout(PATIENCE_MS);
        out = new DataOutputStream(socket.getOutputStream());
        in = new DataInputStream(socket.getInputStream());
        ConnectionHeader header = ConnectionHeader.newBuilder().setServiceName("ClientService")
            .setUserInfo(UserInformation.newBuilder().setEffectiveUser(user)).build();
        out.write("HBas".getBytes(StandardCharsets.US_ASCII));
        out.write(VERSION);
        out.write(SIMPLE);
        out.writeInt(header.getSerializedSize());
        header.writeTo(out);
        out.flush();
    }

    /** Asks so often for a row. */
    void ask(byte[] region, byte[] row, int times) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        DataOutputStream requests = new DataOutputStream(all);
        for (int number = 0; number < times; number++) {
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            RequestHeader.newBuilder().setCallId(number).setMethodName("Get").setRequestParam(true).build().writeDelimitedTo(request);
            RequestConverter.buildGetRequest(region, new Get(row)).writeDelimitedTo(request);
            requests.writeInt(request.size());
            request.writeTo(requests);
        }
        out.write(all.toByteArray());
        out.flush();
    }

    /** Reads so many answers: bytes of all of them. */
    long read(int answers) throws IOException {
        long bytes = 0;
        for (int number = 0; number < answers; number++) {
            byte[] answer = new byte[in.readInt()];
            in.readFully(answer);
            bytes += answer.length;
            ResponseHeader header = ResponseHeader.parseDelimitedFrom(new java.io.ByteArrayInputStream(answer));
            if (header.hasException()) {
                throw new IOException(header.getException().getStackTrace());
            }
        }
        return bytes;
    }

    /** Reads a few bytes again and again, so many a second: how many these were. */
    long trickle(int bytesPerSecond, BooleanSupplier goesOn) throws IOException, InterruptedException {
        byte[] some = new byte[bytesPerSecond / 10];
        long bytes = 0;
        while (goesOn.getAsBoolean()) {
            in.readFully(some);
            bytes += some.length;
            Thread.sleep(100);
        }
        return bytes;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
