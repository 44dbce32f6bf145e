// about: connections that end in the middle of a message, of a cursor and of a large answer
const { MongoClient } = require("mongodb");
const open = (more = {}) => new MongoClient(`mongodb://127.0.0.1:${process.env.PORT}/`, { maxPoolSize: 8, serverSelectionTimeoutMS: 60000, ...more });
const show = (...values) => console.log(...values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
const failure = async (promise) => promise.then((value) => show("no error", value ?? null), (error) => show(error.name, String(error.code), error.message.replace(/:\d+ closed/, ": closed")));

const net = require("net");
const { serialize } = require("bson");
const message = (document) => {
    const body = Buffer.concat([Buffer.alloc(5), serialize(document)]);
    const head = Buffer.alloc(16);
    [body.length + 16, 1, 0, 2013].forEach((number, at) => head.writeInt32LE(number, at * 4));
    return Buffer.concat([head, body]);
};
/** Sends bytes, waits for an answer if one is wanted, and ends the connection. */
const send = (bytes, wanted, reset) => new Promise((done) => {
    const socket = net.connect(Number(process.env.PORT), "127.0.0.1", () => {
        socket.write(bytes);
        if (!wanted) setTimeout(() => (reset ? socket.resetAndDestroy() : socket.destroy()), 20);
    });
    if (wanted) socket.once("data", () => (reset ? socket.resetAndDestroy() : socket.destroy()));
    socket.on("error", () => {});
    socket.on("close", done);
});
async function main() {
    const client = open();
    const c = client.db("shop").collection("vanish");
    await c.drop().catch(() => {});
    await c.insertMany(Array.from({ length: 100 }, (_, _id) => ({ _id, text: "y".repeat(100000) })));
    const find = message({ find: "vanish", batchSize: 90, $db: "shop" });
    for (const reset of [false, true]) {
        for (let at = 0; at < find.length; at += 7) await send(find.subarray(0, at), false, reset);
        for (let i = 0; i < 10; i++) await send(find, true, reset);
        for (let i = 0; i < 5; i++) await send(Buffer.concat([find, find, find]), true, reset);
        await send(message({ insert: "vanish", documents: [{ _id: `left ${reset}` }], $db: "shop" }), true, reset);
        show(await c.countDocuments({}));
    }
    const doomed = open();
    const cursor = doomed.db("shop").collection("vanish").find({}).batchSize(2);
    await cursor.next();
    await doomed.close(true);
    show(await c.countDocuments({}));
    await c.drop();
    await client.close();
}
main().catch((error) => { console.log(error); process.exit(1); });
