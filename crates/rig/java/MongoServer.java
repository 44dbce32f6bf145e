import de.bwaldvogel.mongo.backend.h2.H2Backend;
import java.net.InetSocketAddress;

/** A server that speaks MongoDB's wire protocol, in memory: MongoServer PORT. */
final class MongoServer {
    public static void main(String[] arguments) throws Exception {
        var server = new de.bwaldvogel.mongo.MongoServer(H2Backend.inMemory());
        server.bind(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
        Thread.currentThread().join();
    }
}
