'use strict';
// One suite by a stock client of PostgreSQL: postgres.js CLIENT HOST PORT
// Prints what each step gave, as JSON; a failed statement as its SQLSTATE.

const [client, host, port] = process.argv.slice(2);

const clients = {
  pg: async () => {
    const { Client } = require('pg');
    const it = new Client({ host, port: Number(port), user: 'app', database: 'postgres' });
    await it.connect();
    const rows = async (asked) => (await it.query({ ...asked, rowMode: 'array' })).rows;
    return {
      simple: (text) => rows({ text }),
      prepared: (text, values) => rows({ name: `n${text.length}`, text, values }),
      end: () => it.end(),
    };
  },
  postgres: async () => {
    const sql = require('postgres')({
      host, port: Number(port), user: 'app', database: 'postgres', max: 1, onnotice: () => {},
    });
    const rows = async (asked) => [...(await asked.values())].map((row) => [...row]);
    return {
      simple: (text) => rows(sql.unsafe(text)),
      prepared: (text, values) => rows(sql.unsafe(text, values, { prepare: true })),
      end: () => sql.end(),
    };
  },
};

async function main() {
  const it = await clients[client]();
  const steps = [];
  const step = async (how, ...asked) => {
    try {
      steps.push(await it[how](...asked));
    } catch (error) {
      steps.push([error.code, /^svc why [0-9a-f]{32}$/.test(error.hint)]);
    }
  };
  await step('simple', 'SELECT 1 AS one');
  await step('prepared', 'SELECT id FROM orders WHERE id = $1', [7]);
  await step('prepared', 'SELECT id FROM orders WHERE id = $1', [7]);
  await step('simple', 'DROP TABLE not_there');
  await step('prepared', 'DROP TABLE not_there', []);
  await step('simple', 'SELECT 1/0');
  await step('prepared', 'SELECT $1::int / 0', [1]);
  await step('simple', 'SELECT 2 AS two');
  await step('simple', 'BEGIN');
  await step('prepared', 'INSERT INTO orders VALUES ($1)', [300]);
  await step('simple', 'DROP TABLE not_there');
  await step('simple', 'SELECT 3 AS three');
  await step('simple', 'ROLLBACK');
  await step('prepared', 'SELECT count(*)::int FROM orders WHERE id = $1', [300]);
  await step('prepared', "SELECT length(repeat('x', $1::int))", [500000]);
  await it.end();
  console.log(JSON.stringify(steps));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
