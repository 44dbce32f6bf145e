// about: the Node drivers mysql2 and mariadb by TLS: pools, pipelined queries, large values
// ignore: DeprecationWarning
// tls: only
const mysql2 = require("mysql2/promise");
const mariadb = require("mariadb");
const options = { host: "127.0.0.1", port: Number(process.env.PORT), user: "app", database: "rig", ssl: { rejectUnauthorized: false } };

async function main() {
    const pool = mysql2.createPool({ ...options, connectionLimit: 8 });
    const rows = await Promise.all(Array.from({ length: 100 }, (_, i) => pool.execute("SELECT ? * 2 AS v, REPEAT('x', ?) AS x", [i, i * 100])));
    console.log(rows.reduce((sum, [[row]]) => sum + Number(row.v) + row.x.length, 0));
    await pool.end();
    const piped = await mariadb.createConnection({ ...options, pipelining: true });
    const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => piped.query("SELECT ? AS i", [i])));
    console.log(answers.reduce((sum, rows) => sum + Number(rows[0].i), 0));
    const large = "y".repeat(5_000_000);
    console.log((await piped.query("SELECT LENGTH(?) AS length, ? AS back", [large, large]))[0].back === large);
    console.log((await piped.query("SELECT VARIABLE_VALUE <> '' AS encrypted FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'"))[0]);
    await piped.end();
}
main().catch((error) => { console.log(error); process.exit(1); });
