// Does what programs do with the SDK, over and over, for so many milliseconds. It stops after
// each part of that until a line says that it may go on: nothing of its runs then.
import assert from 'node:assert/strict'
import { createInterface } from 'node:readline'
import { Sandbox } from 'e2b'

const [length, parts] = process.argv.slice(2).map(Number)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const data = 'x'.repeat(100_000)
let commands = 0

async function round(box, n) {
  const ran = await box.commands.run(`echo ${n}; echo err >&2; exit 0`)
  assert.deepEqual([ran.stdout, ran.stderr], [`${n}\n`, 'err\n'])
  await assert.rejects(box.commands.run('exit 3'), (e) => e.exitCode === 3)
  await box.files.write(`f${n % 10}`, data)
  assert.equal((await box.files.read(`f${n % 10}`)).length, data.length)
  const cat = await box.commands.run('cat', { background: true, stdin: true })
  await box.commands.sendStdin(cat.pid, 'typed\n')
  await cat.kill()
  await cat.wait().catch(() => {})
  commands += 3
}

async function part(until) {
  const boxes = await Promise.all([1, 2].map(() => Sandbox.create({ timeoutMs: 600_000 })))
  await Promise.all(
    boxes.map(async (box) => {
      for (let n = 0; Date.now() < until; n++) {
        await round(box, n)
        if (n % 50 === 49) await box.setTimeout(600_000)
        if (n % 100 === 99) {
          await box.pause()
          await box.connect()
        }
      }
      await box.kill()
    }),
  )
}

const begun = Date.now()
for (let n = 1; n <= parts; n++) {
  await part(begun + (length * n) / parts)
  console.log(commands)
  await lines.next()
}
process.exit()
