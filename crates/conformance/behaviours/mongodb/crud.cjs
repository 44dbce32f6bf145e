// about: the Node driver: insert, find, update, replace, delete, upsert, find and modify, distinct, counts
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

async function main() {
    const client = open();
    const c = client.db("shop").collection("crud");
    await c.drop().catch(() => {});
    show(await c.insertOne({ _id: 1, name: "one", tags: ["a", "b"], inner: { x: 1.5, y: null } }));
    show(await c.insertMany([2, 3, 4, 5].map((_id) => ({ _id, name: `n${_id}`, group: _id % 2 }))));
    show(await c.find({}).sort({ _id: 1 }).toArray());
    show(await c.find({ group: 1 }, { projection: { name: 1, _id: 0 } }).sort({ name: -1 }).toArray());
    show(await c.updateOne({ _id: 1 }, { $set: { name: "uno" }, $push: { tags: "c" } }));
    show(await c.updateMany({ group: 0 }, { $inc: { group: 10 } }));
    show(await c.updateOne({ _id: 9 }, { $set: { name: "upserted" } }, { upsert: true }));
    show(await c.replaceOne({ _id: 2 }, { name: "replaced" }));
    show(await c.findOneAndUpdate({ _id: 3 }, { $inc: { group: 1 } }, { returnDocument: "after" }));
    show(await c.findOneAndDelete({ _id: 3 }));
    show(await c.findOne({ _id: 3 }));
    show(await c.countDocuments({}), await c.estimatedDocumentCount(), await c.distinct("group"));
    show(await c.deleteMany({ _id: { $gt: 3 } }));
    show(await c.find({}).sort({ _id: 1 }).toArray());
    await c.drop();
    await client.close();
}
main().catch((error) => { console.log(error); process.exit(1); });
