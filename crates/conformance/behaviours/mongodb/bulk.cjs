// about: bulk writes of thousands, ordered with an error in the middle and unordered
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

async function main() {
    const client = open();
    const c = client.db("shop").collection("bulk");
    await c.drop().catch(() => {});
    const inserts = (from, to) => Array.from({ length: to - from }, (_, i) => ({ insertOne: { document: { _id: from + i, v: i } } }));
    const first = await c.bulkWrite(inserts(0, 20000));
    show(first.insertedCount);
    for (const ordered of [true, false]) {
        await c.bulkWrite([...inserts(30000, 30010), ...inserts(5, 6), ...inserts(30010, 30020)], { ordered }).then(
            () => show("no error"),
            (error) => show(error.name, String(error.code), error.result.insertedCount, (error.writeErrors.length ?? 1)),
        );
        show(await c.countDocuments({ _id: { $gte: 30000 } }));
        await c.deleteMany({ _id: { $gte: 30000 } });
    }
    const mixed = await c.bulkWrite([
        { updateMany: { filter: { v: { $lt: 100 } }, update: { $inc: { v: 1000000 } } } },
        { deleteMany: { filter: { _id: { $gte: 19000 } } } },
        { replaceOne: { filter: { _id: 500 }, replacement: { v: -1 } } },
        { updateOne: { filter: { _id: "new" }, update: { $set: { v: 1 } }, upsert: true } },
    ]);
    show(mixed.modifiedCount, mixed.deletedCount, mixed.upsertedCount, mixed.matchedCount);
    show(await c.countDocuments({}), await c.countDocuments({ v: { $gte: 1000000 } }));
    await Promise.all(Array.from({ length: 16 }, (_, i) => c.insertMany(Array.from({ length: 500 }, (_, j) => ({ _id: `p${i}-${j}` })))));
    show(await c.countDocuments({}));
    await c.drop();
    await client.close();
}
main().catch((error) => { console.log(error); process.exit(1); });
