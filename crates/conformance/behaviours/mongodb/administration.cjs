// about: collections, indexes, aggregations of several stages, lists of databases
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

async function main() {
    const client = open();
    const db = client.db("house");
    await db.dropDatabase();
    await db.createCollection("one");
    const c = db.collection("two");
    await c.insertMany(Array.from({ length: 200 }, (_, _id) => ({ _id, kind: "abc"[_id % 3], price: _id * 1.25 })));
    show(await c.createIndex({ kind: 1 }));
    show((await c.indexes()).map((index) => index.name).sort());
    show((await db.listCollections({}, { nameOnly: true }).toArray()).map((one) => one.name).sort());
    show(await c.aggregate([{ $match: { _id: { $gte: 50 } } }, { $group: { _id: "$kind", total: { $sum: "$price" }, most: { $max: "$price" } } }, { $sort: { _id: 1 } }]).toArray());
    show(await c.aggregate([{ $sort: { price: -1 } }, { $limit: 3 }, { $project: { kind: 1 } }]).toArray());
    show((await client.db("admin").command({ ping: 1 })).ok, (await client.db("admin").command({ buildInfo: 1 })).ok);
    await c.rename("three").catch((error) => show(error.message));
    show((await db.listCollections({}, { nameOnly: true }).toArray()).map((one) => one.name).sort());
    show(await db.dropDatabase());
    await client.close();
}
main().catch((error) => { console.log(error); process.exit(1); });
