// about: memcached's text by TLS from Node: pools of connections, pipelines in pieces, large values, a slow reader
// tls: only
const tls = require("tls");
const connect = () =>
    new Promise((done, failed) => {
        const socket = tls.connect({ host: "127.0.0.1", port: Number(process.env.PORT), rejectUnauthorized: false }, () => done(socket));
        socket.on("error", failed);
    });
// Everything that comes until the server hangs up.
const rest = (socket) =>
    new Promise((done, failed) => {
        const parts = [];
        socket.on("data", (part) => parts.push(part));
        socket.on("end", () => done(Buffer.concat(parts).toString()));
        socket.on("error", failed);
        socket.resume();
    });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function main() {
    const large = "z".repeat(5_000_000);
    let socket = await connect();
    console.log(socket.getProtocol());
    // What comes in one record with the end of a value memcached forgets until more comes: not sent at once.
    socket.write(`set large 0 0 ${large.length}\r\n${large}\r\n`);
    console.log(await new Promise((done) => socket.once("data", (part) => done(part.toString().trim()))));
    socket.pause();
    socket.write("get large\r\nget large\r\nquit\r\n");
    await pause(300);
    const answer = await rest(socket);
    console.log(answer.length, answer.split(large).length - 1);
    const users = await Promise.all(
        Array.from({ length: 20 }, async (_, user) => {
            const socket = await connect();
            const answers = rest(socket);
            for (let i = 0; i < 100; i++) {
                const command = `set u${user} 0 0 ${String(i).length}\r\n${i}\r\nincr u${user} 1\r\nmg u${user} v\r\n`;
                const at = (i * 7) % command.length;
                socket.write(command.slice(0, at));
                if (i % 10 === 0) await pause(2);
                socket.write(command.slice(at));
            }
            socket.write("quit\r\n");
            return answers;
        }),
    );
    console.log(new Set(users).size, users[0].length, users[0].slice(-40));
    // Gone in the middle of a value.
    socket = await connect();
    socket.write("set half 0 0 100\r\nabc");
    await pause(50);
    socket.destroy();
    socket = await connect();
    socket.write("get half large-not-there\r\ndelete large\r\nquit\r\n");
    console.log(await rest(socket));
}
main().catch((error) => {
    console.log(`failed: ${error.message}`);
    process.exit(1);
});
