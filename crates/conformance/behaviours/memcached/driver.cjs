// about: the Node drivers memcached (text) and memjs (binary): pools, parallel requests, cas, large values
const Memcached = require("memcached");
const memjs = require("memjs");
const where = `127.0.0.1:${process.env.PORT}`;
const call = (object, name, ...rest) =>
    new Promise((done) => object[name](...rest, (error, value) => done(error ? `error: ${error.message ?? error}` : value)));

async function text() {
    const client = new Memcached(where, { poolSize: 8, timeout: 60000, maxValue: 1 << 24 });
    console.log(await call(client, "set", "n", 5, 0), await call(client, "get", "n"));
    console.log(await call(client, "add", "n", 1, 0));
    await Promise.all(Array.from({ length: 300 }, (_, i) => call(client, "set", `k${i}`, { i, square: i * i }, 0)));
    const many = await call(client, "getMulti", Array.from({ length: 300 }, (_, i) => `k${i}`));
    console.log(Object.values(many).reduce((sum, value) => sum + value.square, 0));
    await Promise.all(Array.from({ length: 200 }, () => call(client, "incr", "n", 2)));
    console.log(await call(client, "get", "n"), await call(client, "decr", "n", 5), await call(client, "incr", "none", 1));
    const before = await call(client, "gets", "n");
    console.log(await call(client, "cas", "n", 1, before.cas, 0), await call(client, "cas", "n", 2, before.cas, 0));
    const large = "z".repeat(5_000_000);
    console.log(await call(client, "set", "large", large, 0), (await call(client, "get", "large")) === large);
    console.log(await call(client, "append", "n", "x"), await call(client, "get", "n"), await call(client, "touch", "n", 100), await call(client, "del", "n"));
    client.end();
}

async function binary() {
    const client = memjs.Client.create(where, { timeout: 60, conntimeout: 60 });
    console.log(await client.set("b", "value", { expires: 100 }), String((await client.get("b")).value));
    await Promise.all(Array.from({ length: 300 }, (_, i) => client.set(`b${i}`, `v${i}`)));
    const all = await Promise.all(Array.from({ length: 300 }, (_, i) => client.get(`b${i}`)));
    console.log(all.map((one) => String(one.value)).join("").length);
    console.log((await client.increment("count", 5, { initial: 10 })).value, (await client.increment("count", 5, {})).value);
    await Promise.all(Array.from({ length: 200 }, () => client.increment("count", 1, {})));
    console.log(String((await client.get("count")).value), (await client.get("none")).value);
    console.log(await client.add("b", "x"), await client.replace("b", "y"), await client.delete("b"), await client.delete("b"));
    const large = Buffer.alloc(5_000_000, "q");
    await client.set("large", large);
    console.log((await client.get("large")).value.equals(large));
    console.log(await client.delete("count"), await client.flush() !== null);
    client.quit();
}
text().then(binary).catch((error) => { console.log(error); process.exit(1); });
