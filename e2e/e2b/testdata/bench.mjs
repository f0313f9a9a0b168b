// Times what programs do with the SDK, in turns in a sandbox of a gateway ($CORRAL) and with
// E2B's daemon ($ENVD). It prints medians, and their ratio where both can do it.
import { Sandbox } from 'e2b'

const size = 64 << 20
const data = new Uint8Array(size).map((_, i) => i * 7 + (i >> 8))
const sandboxUrl = process.env.CORRAL
const median = (a) => a.sort((x, y) => x - y)[a.length >> 1]
const time = async (list, f) => {
  const start = performance.now()
  const result = await f()
  list.push(performance.now() - start)
  return result
}
const boxes = [
  await Sandbox.create({ sandboxUrl, timeoutMs: 600_000 }),
  new Sandbox({ sandboxId: 'envd', envdVersion: '0.6.13', sandboxUrl: process.env.ENVD }),
]

async function compare(name, rounds, each, f) {
  const took = boxes.map(() => [])
  for (const box of boxes) await f(box)
  for (let r = 0; r < rounds; r++)
    for (const [i, box] of boxes.entries()) for (let n = 0; n < each; n++) await time(took[i], () => f(box))
  const [own, daemon] = took.map(median)
  console.log(`${name}: ${own.toFixed(1)} ms, envd ${daemon.toFixed(1)} ms, ratio ${(own / daemon).toFixed(2)}`)
}

await new Promise((r) => setTimeout(r, 5000)) // until the pool is filled again
// So often that what V8 compiles on the way is not in the median.
await compare("commands.run('true')", 40, 20, (box) => box.commands.run('true'))
if (process.env.ONLY === 'run') {
  await boxes[0].kill()
  process.exit()
}
// The SDK copies what is in memory so often that it takes longer than both servers.
const stream = () => {
  let at = 0
  return new ReadableStream({
    pull(c) {
      c.enqueue(data.subarray(at, (at += 1 << 20)))
      if (at >= size) c.close()
    },
  })
}
for (const [name, from] of [['64 MiB written from a stream', stream], ['64 MiB written from memory', () => data.buffer]]) {
  const before = process.cpuUsage()
  const began = performance.now()
  await compare(name, 60, 1, (box) => box.files.write('big', from()))
  const used = process.cpuUsage(before)
  console.log(`  while writing, this program computed for ${Math.round((used.user + used.system) / 10 / (performance.now() - began))} % of the time`)
}
await compare('64 MiB read', 5, 1, async (box) => {
  if ((await box.files.read('big', { format: 'bytes' })).length !== size) throw new Error('the file is not whole')
})

const [create, pause, resume, kill] = [[], [], [], []]
for (let i = 0; i < 15; i++) {
  await new Promise((r) => setTimeout(r, 1500)) // the pool is filled again
  const box = await time(create, () => Sandbox.create({ sandboxUrl }))
  await time(pause, () => box.pause())
  await time(resume, () => box.connect())
  await time(kill, () => box.kill())
}
for (const [name, took] of Object.entries({ create, pause, resume, kill })) console.log(`${name}: ${median(took).toFixed(1)} ms`)
await boxes[0].kill()
