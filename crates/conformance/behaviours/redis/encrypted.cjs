// about: the Node driver ioredis by TLS: pipelines, transactions, large values, messages
// tls: only
const Redis = require("ioredis");

async function main() {
    const options = { port: Number(process.env.PORT), host: "127.0.0.1", tls: { rejectUnauthorized: false } };
    const client = new Redis(options);
    const piped = client.pipeline();
    for (let i = 0; i < 3000; i++) piped.set(`k${i}`, i).incr(`k${i}`);
    console.log((await piped.exec()).reduce((sum, [, value]) => sum + (Number(value) || 0), 0));
    console.log(await client.multi().set("m", 1).incr("m").exec());
    const large = Buffer.alloc(8_000_000, "large ");
    await client.set("large", large);
    console.log((await client.getBuffer("large")).equals(large));
    const listener = new Redis(options);
    const heard = new Promise((done) => listener.on("message", (channel, text) => done(text)));
    await listener.subscribe("news");
    await client.publish("news", "hello");
    console.log(await heard);
    await client.flushdb();
    await listener.quit();
    await client.quit();
}
main().catch((error) => { console.log(error); process.exit(1); });
