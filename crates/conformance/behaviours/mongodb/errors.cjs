// about: errors: duplicate keys, unknown commands and operators, bad names, cursors that are gone
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

async function main() {
    const client = open();
    const db = client.db("shop");
    const c = db.collection("errors");
    await c.drop().catch(() => {});
    await c.insertOne({ _id: 1 });
    await failure(c.insertOne({ _id: 1 }));
    await c.createIndex({ email: 1 }, { unique: true });
    await c.insertOne({ _id: 2, email: "a" });
    await failure(c.insertOne({ _id: 3, email: "a" }));
    await failure(c.updateOne({ _id: 1 }, { $nonsense: { x: 1 } }));
    await failure(c.find({ x: { $nonsense: 1 } }).toArray());
    await failure(db.command({ nosuchcommand: 1 }));
    await failure(db.command({ getMore: 987654321n, collection: "errors" }));
    await failure(db.command({ find: 5 }));
    await failure(c.aggregate([{ $nosuchstage: {} }]).toArray());
    await failure(db.collection("none").drop());
    show(await c.countDocuments({}));
    await c.drop();
    await client.close();
}
main().catch((error) => { console.log(error); process.exit(1); });
