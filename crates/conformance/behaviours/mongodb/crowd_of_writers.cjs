// about: four clients with 64 requests under way each count one document up
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

async function main() {
    const clients = Array.from({ length: 4 }, () => open({ maxPoolSize: 16 }));
    const of = (client) => client.db("shop").collection("crowd");
    await of(clients[0]).drop().catch(() => {});
    await of(clients[0]).insertOne({ _id: 1, n: 0 });
    await Promise.all(clients.flatMap((client) => Array.from({ length: 64 }, async () => {
        for (let i = 0; i < 3; i++) await of(client).updateOne({ _id: 1 }, { $inc: { n: 1 } });
    })));
    show(await of(clients[0]).findOne({ _id: 1 }));
    await of(clients[0]).drop();
    await Promise.all(clients.map((client) => client.close()));
}
main().catch((error) => { console.log(error); process.exit(1); });
