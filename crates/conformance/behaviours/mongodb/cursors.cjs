// about: cursors in batches with getMore: many at once, closed early, skip and limit, aggregations
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

async function main() {
    const client = open();
    const c = client.db("shop").collection("cursors");
    await c.drop().catch(() => {});
    await c.insertMany(Array.from({ length: 5000 }, (_, _id) => ({ _id, v: _id % 97, text: "x".repeat(50) })));
    const all = async (batch) => {
        let sum = 0, count = 0;
        for await (const one of c.find({}).sort({ _id: 1 }).batchSize(batch)) { sum = (sum * 31 + one._id + one.v) % 1000003; count++; }
        return [count, sum];
    };
    for (const batch of [2, 100, 3000]) show(batch, await all(batch));
    show(await Promise.all(Array.from({ length: 12 }, (_, i) => all(50 + i))));
    for (let i = 0; i < 10; i++) {
        const cursor = c.find({}).batchSize(10);
        for (let j = 0; j < 15; j++) await cursor.next();
        await cursor.close();
    }
    show((await c.find({}).sort({ _id: 1 }).skip(4990).batchSize(3).toArray()).map((one) => one._id));
    show((await c.find({}).sort({ _id: -1 }).limit(7).batchSize(2).toArray()).map((one) => one._id));
    show(await c.aggregate([{ $match: { v: { $lt: 5 } } }, { $group: { _id: "$v", n: { $sum: 1 } } }, { $sort: { _id: 1 } }], { batchSize: 2 }).toArray());
    await c.drop();
    await client.close();
}
main().catch((error) => { console.log(error); process.exit(1); });
