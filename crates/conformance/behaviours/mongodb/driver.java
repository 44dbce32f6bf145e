// about: the Java driver: documents, cursors, bulk writes, sessions, transactions refused, sixteen threads
// ignore: SLF4J
import com.mongodb.MongoException;
import com.mongodb.client.*;
import com.mongodb.client.model.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.IntStream;
import org.bson.Document;

public class driver {
    static void attempt(String what, Callable<?> work) throws Exception {
        try {
            System.out.println(what + " " + work.call());
        } catch (MongoException error) {
            System.out.println(what + " " + error.getClass().getSimpleName() + " " + error.getCode());
        } catch (IllegalStateException error) {
            System.out.println(what + " " + error.getMessage());
        }
    }

    public static void main(String[] arguments) throws Exception {
        var url = "mongodb://127.0.0.1:" + System.getenv("PORT") + "/?serverSelectionTimeoutMS=60000&maxPoolSize=16";
        try (var client = MongoClients.create(url)) {
            var c = client.getDatabase("shop").getCollection("java");
            c.drop();
            c.insertMany(IntStream.range(0, 3000).mapToObj(i -> new Document("_id", i).append("v", i % 13).append("text", "t".repeat(i % 100))).toList());
            for (int batch : new int[] {2, 50, 5000}) {
                long sum = 0;
                for (var one : c.find(Filters.lt("_id", 500)).sort(Sorts.ascending("_id")).batchSize(batch)) sum = sum * 31 + one.toJson().hashCode();
                System.out.println("cursor " + batch + " " + sum);
            }
            System.out.println(c.updateMany(Filters.eq("v", 5), Updates.inc("v", 100)).getModifiedCount());
            System.out.println(c.findOneAndUpdate(Filters.eq("_id", 7), Updates.set("text", "seven"), new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER)).toJson());
            var bulk = c.bulkWrite(List.of(new InsertOneModel<>(new Document("_id", "b")), new UpdateOneModel<>(Filters.eq("_id", "u"), Updates.set("x", 1), new UpdateOptions().upsert(true)), new DeleteManyModel<>(Filters.gt("_id", 2900))));
            System.out.println(bulk.getInsertedCount() + " " + bulk.getUpserts().size() + " " + bulk.getDeletedCount());
            attempt("duplicate", () -> c.insertOne(new Document("_id", 7)));
            attempt("unknown", () -> client.getDatabase("shop").runCommand(new Document("nosuch", 1)));
            try (var session = client.startSession()) {
                attempt("in a session", () -> c.countDocuments(session));
                session.startTransaction();
                attempt("in a transaction", () -> c.insertOne(session, new Document("_id", "t")));
                attempt("commit", () -> { session.commitTransaction(); return "done"; });
            }
            var large = new byte[10_000_000];
            Arrays.fill(large, (byte) 7);
            c.insertOne(new Document("_id", "large").append("bytes", large));
            System.out.println(Arrays.hashCode(c.find(Filters.eq("_id", "large")).first().get("bytes", org.bson.types.Binary.class).getData()));
            var pool = Executors.newFixedThreadPool(16);
            c.insertOne(new Document("_id", "n").append("n", 0));
            var work = IntStream.range(0, 16).mapToObj(thread -> pool.submit(() -> {
                for (int i = 0; i < 20; i++) c.updateOne(Filters.eq("_id", "n"), Updates.inc("n", 1));
                return null;
            })).toList();
            for (var each : work) each.get();
            pool.shutdown();
            System.out.println(c.find(Filters.eq("_id", "n")).first().toJson());
            System.out.println(c.countDocuments());
            c.drop();
        }
    }
}
