// about: messages written by hand, one after the other and several at once: OP_MSG with one section and with two, a checksum
// bytes: yes
const net = require("net");
const { serialize, deserialize } = require("bson");
let number = 0;
const frame = (flags, ...sections) => {
    const head = Buffer.alloc(20);
    const length = 20 + sections.reduce((sum, section) => sum + section.length, 0);
    [length, ++number, 0, 2013, flags].forEach((value, at) => head.writeInt32LE(value, at * 4));
    return Buffer.concat([head, ...sections]);
};
const body = (document) => Buffer.concat([Buffer.from([0]), serialize({ ...document, $db: "shop" })]);
const sequence = (name, documents) => {
    const inner = Buffer.concat([Buffer.from(`${name}\0`), ...documents.map((document) => serialize(document))]);
    const head = Buffer.from([1, 0, 0, 0, 0]);
    head.writeInt32LE(inner.length + 4, 1);
    return Buffer.concat([head, inner]);
};

async function main() {
    const socket = net.connect(Number(process.env.PORT), "127.0.0.1");
    let have = Buffer.alloc(0);
    const waiting = [];
    socket.on("data", (chunk) => {
        have = Buffer.concat([have, chunk]);
        while (have.length > 4 && have.length >= have.readInt32LE(0)) {
            const length = have.readInt32LE(0);
            waiting.shift()(deserialize(have.subarray(21, length)));
            have = have.subarray(length);
        }
    });
    const answer = () => new Promise((done) => waiting.push(done));
    const ask = (...messages) => {
        const answers = messages.map(answer);
        socket.write(Buffer.concat(messages));
        return Promise.all(answers);
    };
    const show = (values) => console.log(JSON.stringify(values));
    show(await ask(frame(0, body({ ping: 1 }))));
    await ask(frame(0, body({ drop: "raw" })));
    show(await ask(frame(0, body({ insert: "raw", documents: [{ _id: 1, text: "one" }] }))));
    const documents = Array.from({ length: 50 }, (_, i) => ({ _id: i + 2, text: "z".repeat(i * 10) }));
    show(await ask(frame(0, body({ insert: "raw" }), sequence("documents", documents))));
    show(await ask(frame(0, body({ find: "raw", filter: { _id: { $lt: 4 } }, sort: { _id: 1 } }))));
    show(await ask(...[1, 2, 3, 60].map((_id) => frame(0, body({ find: "raw", filter: { _id } })))));
    show(await ask(frame(0, body({ update: "raw", updates: [{ q: { _id: 1 }, u: { $set: { text: "uno" } } }] }))));
    show(await ask(frame(0, body({ insert: "raw", documents: [{ _id: 1 }] }))));
    show(await ask(frame(0, body({ delete: "raw", deletes: [{ q: {}, limit: 0 }] }))));
    show(await ask(frame(0, body({ count: "raw" }))));
    show(await ask(frame(0, body({ drop: "raw" }))));
    socket.end();
}
main().catch((error) => { console.log(error); process.exit(1); });
