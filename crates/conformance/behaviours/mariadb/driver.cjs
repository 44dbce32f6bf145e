// about: the Node drivers mysql2 and mariadb: pools, pipelined queries, prepared statements, streams
const mysql2 = require("mysql2/promise");
const mariadb = require("mariadb");
const options = { host: "127.0.0.1", port: Number(process.env.PORT), user: "app", database: "rig" };

async function main() {
    const pool = mysql2.createPool({ ...options, connectionLimit: 8 });
    await pool.query("CREATE TABLE n (id INT PRIMARY KEY, v INT) ENGINE=InnoDB");
    await Promise.all(Array.from({ length: 100 }, (_, i) => pool.execute("INSERT INTO n VALUES (?, ?)", [i, i * i])));
    const [rows] = await pool.query("SELECT COUNT(*) AS c, SUM(v) AS s FROM n");
    console.log(JSON.stringify(rows));
    const one = await pool.getConnection();
    await one.beginTransaction();
    await one.query("UPDATE n SET v = 0 WHERE id < 50");
    await one.rollback();
    console.log(JSON.stringify((await one.query("SELECT SUM(v) AS s FROM n"))[0]));
    one.release();
    await pool.end();

    // Requests are sent before the answers to those before have come.
    const piped = await mariadb.createConnection({ ...options, pipelining: true });
    const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => piped.query("SELECT ? AS i, REPEAT('x', ?) AS x", [i, i])));
    console.log(answers.map((rows) => Number(rows[0].i) + rows[0].x.length).join(" "));
    await piped.beginTransaction();
    const mixed = await Promise.allSettled([
        piped.query("UPDATE n SET v = v + 1 WHERE id = 1"),
        piped.query("SELEKT"),
        piped.query("UPDATE n SET v = v + 1 WHERE id = 1"),
        piped.commit(),
        piped.query("SELECT v FROM n WHERE id = 1"),
    ]);
    console.log(mixed.map((one) => one.status).join(" "), JSON.stringify(mixed[4].value));
    await piped.batch("INSERT INTO n VALUES (?, ?)", Array.from({ length: 300 }, (_, i) => [1000 + i, i]));
    let sum = 0;
    for await (const row of piped.queryStream("SELECT v FROM n ORDER BY id")) sum += row.v;
    console.log("streamed", sum);
    await piped.query("DROP TABLE n");
    await piped.end();
}
main().catch((error) => { console.log(error); process.exit(1); });
