// about: sessions and transactions, which this server does not offer: refused, in both cases alike
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

async function main() {
    const client = open();
    const c = client.db("shop").collection("transactions");
    await c.drop().catch(() => {});
    await c.insertOne({ _id: 1, n: 0 });
    const session = client.startSession({ causalConsistency: true });
    await failure(c.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session }));
    await failure(c.findOne({ _id: 1 }, { session }));
    await session.endSession();
    const other = client.startSession();
    other.startTransaction();
    await failure(c.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session: other }));
    await failure(other.commitTransaction());
    await failure(other.abortTransaction());
    await other.endSession();
    await failure(client.withSession((third) => third.withTransaction(() => c.insertOne({ _id: 2 }, { session: third }))));
    // Retryable writes go without a number to a server that stands alone.
    show(await c.updateOne({ _id: 1 }, { $inc: { n: 1 } }), await c.findOne({ _id: 1 }));
    const admin = client.db("admin");
    await failure(admin.command({ endSessions: [] }));
    await failure(admin.command({ commitTransaction: 1 }));
    await c.drop();
    await client.close();
}
main().catch((error) => { console.log(error); process.exit(1); });
