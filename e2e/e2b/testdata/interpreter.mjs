// Runs code as a program does that knows nothing of Corral: with the published SDK. It
// writes the plot to the file that is named.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { Sandbox } from '@e2b/code-interpreter'

const step = (name) => console.log('ok', name)
const box = await Sandbox.create({ timeoutMs: 300_000 })
try {
  step('create')
  const sum = await box.runCode('x = 40\nprint("out")\nx + 2')
  assert.deepEqual([sum.text, sum.logs.stdout.join(''), sum.error], ['42', 'out\n', undefined])
  assert.equal((await box.runCode('x')).text, '40')
  const failed = await box.runCode('1 / 0')
  assert.equal(failed.error.name, 'ZeroDivisionError')
  assert.match(failed.error.traceback, /division by zero/)
  step('state, errors')

  const plot = await box.runCode(`
import numpy as np, matplotlib.pyplot as plt
t = np.linspace(0, 4 * np.pi, 200)
plt.figure(figsize=(4, 2.5)); plt.plot(t, np.sin(t) * np.exp(-t / 6)); plt.title('drawn in a sandbox'); plt.tight_layout()
plt.show()`)
  const png = Buffer.from(plot.results[0].png, 'base64')
  assert.equal(png.subarray(1, 4).toString(), 'PNG')
  if (process.argv[2]) fs.writeFileSync(process.argv[2], png)
  const table = await box.runCode('import pandas as pd; pd.DataFrame({"a": [1, 2]})')
  assert.match(table.results[0].html, /<table/)
  step('plot, table')

  const context = await box.createCodeContext({ cwd: '/tmp' })
  assert.equal((await box.runCode('import os; os.getcwd(), "x" in globals()', { context })).text, "('/tmp', False)")
  await box.runCode('y = 1', { context })
  await box.restartCodeContext(context)
  assert.equal((await box.runCode('y', { context })).error.name, 'NameError')
  assert((await box.listCodeContexts()).some((c) => c.id === context.id))
  await box.removeCodeContext(context)
  await assert.rejects(box.runCode('1', { context }), /not found/)
  step('contexts')

  const js = await box.runCode('const a = 20; console.log("out"); console.error("err"); a + Number(process.env.B)', { language: 'js', envs: { B: '1' } })
  assert.deepEqual([js.text, js.logs.stdout.join(''), js.logs.stderr.join('')], ['21', 'out\n', 'err\n'])
  assert.equal((await box.runCode('a * 2', { language: 'js' })).text, '40')
  assert.equal((await box.runCode('nothing', { language: 'js' })).error.name, 'ReferenceError')
  await box.runCode('cd /tmp; v=kept', { language: 'bash' })
  assert.deepEqual((await box.runCode('pwd; echo $v', { language: 'bash' })).logs.stdout.join(''), '/tmp\nkept\n')
  assert.equal((await box.runCode('(exit 3)', { language: 'bash' })).error.value, '3')
  step('other languages')

  await assert.rejects(box.runCode('import time; time.sleep(600)', { timeoutMs: 500 }))
  assert.equal((await box.runCode('x + 1')).text, '41') // it was interrupted, and has its state
  step('interrupted')

  const execute = (headers) => fetch('https://' + box.getHost(49999) + '/execute', { method: 'POST', headers, body: '{"code": "1"}' })
  assert.equal((await execute({})).status, 401)
  assert.equal((await execute({ 'X-Access-Token': 'x' })).status, 401)
  assert.notEqual((await fetch('https://' + box.getHost(49999) + '//execute', { method: 'POST', body: '{"code": "1"}' })).status, 200)
  step('a token is needed')
} finally {
  await box.kill()
}
