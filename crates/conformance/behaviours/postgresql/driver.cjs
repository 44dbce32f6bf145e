// about: the Node drivers pg and postgres: pools, pipelined queries, prepared statements, cursors, COPY
const { Pool, Client } = require("pg");
const postgres = require("postgres");
const options = { host: "127.0.0.1", port: Number(process.env.PORT), user: "app", database: "postgres" };

async function main() {
    const pool = new Pool({ ...options, max: 8 });
    await pool.query("CREATE TABLE n (id int PRIMARY KEY, v int)");
    await Promise.all(Array.from({ length: 100 }, (_, i) => pool.query({ name: "insert", text: "INSERT INTO n VALUES ($1, $2)", values: [i, i * i] })));
    console.log(JSON.stringify((await pool.query("SELECT count(*), sum(v) FROM n")).rows));
    const one = await pool.connect();
    await one.query("BEGIN");
    await one.query("UPDATE n SET v = 0 WHERE id < 50");
    await one.query("ROLLBACK");
    console.log(JSON.stringify((await one.query("SELECT sum(v) FROM n")).rows));
    one.release();
    await pool.end();

    // This driver sends requests before the answers to those before have come.
    const sql = postgres({ ...options, max: 1, max_pipeline: 50, onnotice: () => {} });
    const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => sql`SELECT ${i}::int AS i, repeat('x', ${i}::int) AS x`));
    console.log(answers.map((rows) => rows[0].i + rows[0].x.length).join(" "));
    const mixed = await Promise.allSettled([sql`UPDATE n SET v = v + 1 WHERE id = 1`, sql`SELEKT`, sql`SELECT v FROM n WHERE id = 1`]);
    console.log(mixed.map((one) => one.status).join(" "), JSON.stringify(mixed[2].value));
    const sum = await sql.begin(async (sql) => {
        const all = await Promise.all([sql`UPDATE n SET v = v + 1`, sql`SELECT sum(v) FROM n`]);
        return all[1][0].sum;
    });
    console.log("in a transaction", sum);
    let rows = 0;
    for await (const some of sql`SELECT g FROM generate_series(1, 5000) g`.cursor(700)) rows += some.length;
    console.log("by a cursor", rows);
    const writable = await sql`COPY n FROM STDIN`.writable();
    await new Promise((done, failed) => {
        writable.on("finish", done).on("error", failed);
        for (let i = 0; i < 5000; i++) writable.write(`${10000 + i}\t${i}\n`);
        writable.end();
    });
    console.log(JSON.stringify(await sql`SELECT count(*)::int FROM n`));
    await sql`DROP TABLE n`;
    await sql.end();
}
main().catch((error) => { console.log(error); process.exit(1); });
