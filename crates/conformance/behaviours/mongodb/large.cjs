// about: documents of 15 MB up and down, one that is too large, many of 1 MB at once
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

const { createHash } = require("crypto");
async function main() {
    const client = open();
    const c = client.db("shop").collection("large");
    await c.drop().catch(() => {});
    const bytes = Buffer.alloc(15_000_000, "large document ");
    await c.insertOne({ _id: 1, bytes });
    const back = await c.findOne({ _id: 1 });
    show(createHash("md5").update(back.bytes.buffer).digest("hex"), back.bytes.length());
    await failure(c.insertOne({ _id: 2, bytes: Buffer.alloc(17_000_000) }));
    await c.insertMany(Array.from({ length: 40 }, (_, i) => ({ _id: `m${i}`, text: String.fromCharCode(65 + (i % 26)).repeat(1_000_000) })));
    const hash = createHash("md5");
    for await (const one of c.find({ _id: /^m/ }).sort({ _id: 1 }).batchSize(7)) hash.update(one._id + one.text);
    show(hash.digest("hex"));
    const read = await Promise.all(Array.from({ length: 8 }, () => c.findOne({ _id: 1 })));
    show(read.every((one) => one.bytes.length() === 15_000_000));
    await c.drop();
    await client.close();
}
main().catch((error) => { console.log(error); process.exit(1); });
