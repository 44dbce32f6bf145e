// about: the Node drivers ioredis and redis: pipelines of thousands, transactions, scripts, messages, blocking, scans
const Redis = require("ioredis");
const { createClient } = require("redis");
const port = Number(process.env.PORT);

async function first() {
    const client = new Redis({ port, host: "127.0.0.1" });
    const piped = client.pipeline();
    for (let i = 0; i < 5000; i++) piped.set(`k${i}`, i).incr(`k${i}`);
    const answers = await piped.exec();
    console.log(answers.length, answers.reduce((sum, [, value]) => sum + (Number(value) || 0), 0));
    console.log(await client.multi().set("m", 1).incr("m").lpush("m", 1).get("m").exec().then((all) => all.map(([error, value]) => error?.message ?? value)));
    console.log(await client.multi({ pipeline: false }) && await client.set("n", 5) && await client.exec());
    client.defineCommand("double", { numberOfKeys: 1, lua: "return redis.call('GET', KEYS[1]) * ARGV[1]" });
    console.log(await client.double("n", 4), await client.evalsha("f".repeat(40), 0).catch((error) => error.message));
    const automatic = new Redis({ port, enableAutoPipelining: true });
    const values = await Promise.all(Array.from({ length: 3000 }, (_, i) => automatic.get(`k${i}`)));
    console.log(values.reduce((sum, value) => sum + Number(value), 0));
    const waiting = new Redis({ port });
    const popped = waiting.blpop("queue", 20);
    await client.rpush("queue", "work");
    console.log(await popped);
    const listener = new Redis({ port });
    const heard = [];
    const all = new Promise((done) => listener.on("message", (channel, text) => heard.push(text) === 100 && done()));
    await listener.subscribe("news");
    for (let i = 0; i < 100; i++) client.publish("news", `number ${i}`);
    await all;
    console.log(heard.length, heard[99]);
    let keys = 0;
    for await (const some of client.scanStream({ match: "k*", count: 500 })) keys += some.length;
    console.log(keys);
    const large = Buffer.alloc(8_000_000, "large ");
    await client.set("large", large);
    console.log((await client.getBuffer("large")).equals(large));
    await client.flushdb();
    for (const one of [client, automatic, waiting, listener]) await one.quit();
}

async function second() {
    const client = createClient({ url: `redis://127.0.0.1:${port}` });
    await client.connect();
    console.log((await Promise.all(Array.from({ length: 2000 }, (_, i) => client.incrBy("sum", i)))).at(-1));
    console.log(await client.multi().hSet("h", { a: 1, b: 2 }).hGetAll("h").zAdd("z", { score: 1.5, value: "v" }).zRangeWithScores("z", 0, -1).exec());
    await client.watch("sum");
    await client.set("sum", 1);
    console.log(await client.multi().get("sum").exec().catch((error) => error.constructor.name));
    console.log(await client.executeIsolated(async (own) => {
        await own.watch("sum");
        return own.multi().incr("sum").exec();
    }));
    const listener = client.duplicate();
    await listener.connect();
    const heard = new Promise((done) => listener.pSubscribe("n*", (text, channel) => done([channel, text])).then(() => client.publish("news", "hello")));
    console.log(await heard);
    console.log(await client.xAdd("x", "1-1", { f: "v" }), await client.xRead({ key: "x", id: "0" }));
    await client.flushDb();
    await listener.quit();
    await client.quit();
}
first().then(second).catch((error) => { console.log(error); process.exit(1); });
