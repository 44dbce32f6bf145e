// about: a little of everything by hand, a transaction among it; its connection is also cut after every byte
const net = require("net");
const { serialize, deserialize, Long, UUID } = require("bson");
let number = 0;
const frame = (flags, ...sections) => {
    const head = Buffer.alloc(20);
    const length = 20 + sections.reduce((sum, section) => sum + section.length, 0);
    [length, ++number, 0, 2013, flags].forEach((value, at) => head.writeInt32LE(value, at * 4));
    return Buffer.concat([head, ...sections]);
};
const body = (document, db = "shop") => Buffer.concat([Buffer.from([0]), serialize({ ...document, $db: db })]);
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
    const ask = (...messages) => {
        const answers = messages.map(() => new Promise((done) => waiting.push(done)));
        socket.write(Buffer.concat(messages));
        return Promise.all(answers);
    };
    const show = (answers) => console.log(JSON.stringify(answers.map(({ ok, n, cursor, code }) => ({ ok, n, rows: cursor?.firstBatch, code }))));
    const lsid = { id: new UUID("00000000-0000-4000-8000-000000000001") };
    const part = { lsid, txnNumber: Long.fromNumber(1), autocommit: false };
    const client = { application: { name: "cut" }, driver: { name: "hand", version: "1" }, os: { type: "Linux" } };
    show(await ask(frame(0, body({ isMaster: 1, client }, "admin"))));
    show(await ask(frame(0, body({ insert: "cut" }), sequence("documents", [{ a: 1 }, { a: 2 }]))));
    show(await ask(frame(0, body({ find: "cut", filter: { a: 2 }, projection: { _id: 0 } })), frame(0, body({ ping: 1 }, "admin"))));
    show(await ask(frame(0, body({ find: "cut", filter: { a: 9 }, ...part, startTransaction: true }))));
    show(await ask(frame(0, body({ commitTransaction: 1, ...part }, "admin"))));
    show(await ask(frame(0, body({ drop: "cut" }))));
    socket.end();
}
main().catch((error) => { console.log(error); process.exit(1); });
