// about: the Node drivers pg and postgres by TLS: pools, pipelined queries, large values
// tls: only
const { Pool } = require("pg");
const postgres = require("postgres");

async function main() {
    const ssl = { rejectUnauthorized: false };
    const pool = new Pool({ host: "127.0.0.1", port: Number(process.env.PORT), user: "app", database: "postgres", max: 8, ssl });
    const rows = await Promise.all(Array.from({ length: 100 }, (_, i) => pool.query("SELECT $1::int * 2 AS v, repeat('x', $1) AS x", [i])));
    console.log(rows.reduce((sum, answer) => sum + answer.rows[0].v + answer.rows[0].x.length, 0));
    console.log((await pool.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")).rows);
    await pool.end();
    const sql = postgres({ host: "127.0.0.1", port: Number(process.env.PORT), user: "app", database: "postgres", max: 2, ssl });
    const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => sql`SELECT ${i}::int AS i`));
    console.log(answers.reduce((sum, one) => sum + one[0].i, 0));
    const large = "y".repeat(5_000_000);
    console.log((await sql`SELECT length(${large}) AS length, ${large} AS back`)[0].back === large);
    await sql.begin(async (one) => console.log((await one`SELECT count(*)::int AS n FROM generate_series(1, 1000)`)[0].n));
    await sql.end();
}
main().catch((error) => { console.log(error); process.exit(1); });
