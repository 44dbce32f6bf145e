import com.mongodb.client.MongoClients;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Updates;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.bson.Document;

/**
 * Users of the official driver: MongoWork PORT APPLICATION THREADS ROUNDS. Each thread counts its own document up and reads
 * what it has written, large documents among it, by cursors of several batches. Prints "right" if every answer was.
 */
final class MongoWork {
    public static void main(String[] arguments) throws Exception {
        var url = "mongodb://127.0.0.1:%s/?appName=%s&maxPoolSize=%s&serverSelectionTimeoutMS=30000"
                .formatted(arguments[0], arguments[1], arguments[2]);
        int threads = Integer.parseInt(arguments[2]);
        int rounds = Integer.parseInt(arguments[3]);
        try (var client = MongoClients.create(url)) {
            var collection = client.getDatabase("shop").getCollection(arguments[1]);
            collection.drop();
            var pool = Executors.newFixedThreadPool(threads);
            var work = IntStream.range(0, threads).mapToObj(id -> pool.submit(() -> {
                collection.insertOne(new Document("_id", "counter" + id).append("n", 0));
                for (int round = 1; round <= rounds; round++) {
                    collection.updateOne(Filters.eq("_id", "counter" + id), Updates.inc("n", 1));
                    int seen = collection.find(Filters.eq("_id", "counter" + id)).first().getInteger("n");
                    check(seen == round, seen);
                    var many = IntStream.range(0, 10).mapToObj(i -> new Document("of", id).append("text", "x".repeat(5000))).toList();
                    if (round % 10 == 0) {
                        collection.insertMany(many);
                    }
                }
                int found = 0;
                for (var document : collection.find(Filters.eq("of", id)).batchSize(3)) {
                    check(document.getString("text").length() == 5000, document);
                    found++;
                }
                check(found == rounds / 10 * 10, found);
                return null;
            })).toList();
            for (var each : work) {
                each.get(120, TimeUnit.SECONDS);
            }
            pool.shutdown();
        }
        System.out.println("right");
    }

    private static void check(boolean right, Object seen) {
        if (!right) {
            throw new AssertionError(seen);
        }
    }
}
