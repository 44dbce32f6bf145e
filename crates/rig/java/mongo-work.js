// A user of the official driver for Node: mongo-work.js DIRECTORY PORT APPLICATION ROUNDS. Prints "right" if every answer was.
const [directory, port, application, rounds] = process.argv.slice(2);
const { MongoClient } = require(`${directory}/node_modules/mongodb`);

async function main() {
  const client = new MongoClient(`mongodb://127.0.0.1:${port}/`, { appName: application, maxPoolSize: 8 });
  const collection = client.db('shop').collection(application);
  const ids = [...Array(16).keys()];
  await collection.insertMany(ids.map((id) => ({ _id: id, n: 0, text: 'x'.repeat(3000) })));
  for (let round = 1; round <= Number(rounds); round++) {
    await Promise.all(ids.map((id) => collection.updateOne({ _id: id }, { $inc: { n: 1 } })));
    const all = await collection.find({}).batchSize(5).toArray();
    if (all.length !== 16 || all.some((document) => document.n !== round)) throw new Error(JSON.stringify(all));
  }
  await client.close();
  console.log('right');
}
main().catch((error) => { console.error(error); process.exit(1); });
