// Builds templates as a program does that knows nothing of Corral: with the published SDK.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { Sandbox, Template } from 'e2b'

const step = (name) => console.log('ok', name)

fs.mkdirSync('context/app/data', { recursive: true })
fs.writeFileSync('context/app/main.py', 'import os; print(os.environ["GREETING"])\n')
fs.writeFileSync('context/app/data/a.txt', 'a')
fs.symlinkSync('a.txt', 'context/app/data/link')

const build = async (template, name, options = {}) => {
  const logs = []
  const info = await Template.build(template, name, { ...options, onBuildLogs: (l) => logs.push(l.message) })
  return { ...info, logs: logs.join('\n') }
}
const steps = (greeting) =>
  Template({ fileContextPath: 'context' })
    .fromBaseImage()
    .setEnvs({ GREETING: greeting })
    .setWorkdir('work')
    .copy('app/main.py', 'main.py', { mode: 0o755 })
    .copy('app', 'all')
    .copy('app/data/*', 'data/')
    .runCmd('pwd; python3 main.py; date +%N >built; test -x main.py -a -L all/data/link -a "$(cat data/link)" = a')

// A start command that is never ready: it takes a minute to say so.
const never = build(Template().fromBaseImage().setStartCmd('echo waiting for what never comes; exec sleep 1000', 'sleep 0.1; exit 1'), 'never').then(
  () => assert.fail('a template was built that is never ready'),
  (error) => error,
)

const first = await build(steps('hello'), 'site:v1')
assert.match(first.logs, /\/home\/user\/work\nhello\n/)
assert(!first.logs.includes('CACHED'))
assert.deepEqual(first.tags, ['v1'])
assert.equal(await Template.exists('site'), true)
step('build')

const again = await build(steps('hello').runCmd('echo more'), 'site:v2')
assert.match(again.logs, /CACHED \[builder 6\/7\] RUN/)
assert(!(await build(steps('hello'), 'site:v2', { skipCache: true })).logs.includes('CACHED'))
step('layers')

const box = await Sandbox.create('site:v1')
const ran = await box.commands.run('pwd; python3 main.py; cat built all/data/a.txt; id -un')
assert.match(ran.stdout, /^\/home\/user\/work\nhello\n\d+\nauser\n$/)
assert.equal((await box.commands.run('echo $GREETING', { envs: { GREETING: 'other' } })).stdout, 'other\n')
await box.kill()
await assert.rejects(Sandbox.create('site'), /not found/) // it has no tag default
await Template.assignTags('site:v1', ['default', 'stable'])
assert.deepEqual((await Template.getTags('site')).map((t) => t.tag).sort(), ['default', 'stable', 'v1', 'v2'])
await Template.removeTags('site', ['v1', 'v2'])
assert.deepEqual((await Template.getTags('site')).map((t) => t.tag).sort(), ['default', 'stable'])
await (await Sandbox.create('site')).kill()
step('tags')

const served = Template().fromTemplate('site').setStartCmd('exec python3 -m http.server 8000', `test "$(curl -s -o /dev/null -w '%{http_code}' localhost:8000)" = 200`)
await build(served, 'served')
const server = await Sandbox.create('served')
assert.match(await (await fetch('https://' + server.getHost(8000))).text(), /main\.py/)
await server.kill()
step('start command')

const dead = Template().fromBaseImage().setStartCmd('echo no such server >&2; exit 7', 'test -e /tmp/ready')
await assert.rejects(build(dead, 'dead'), /ended before it was ready: exit code 7. It wrote:\nno such server/)
assert.match((await never).message, /not ready after 1m0s. It wrote:\nwaiting for what never comes/)
assert.equal((await Template.exists('dead')) || (await Template.exists('never')), false)
step('start command that is not ready')

await assert.rejects(build(Template().fromBaseImage().runCmd('echo seen; exit 3'), 'broken'), /exit code 3/)
await assert.rejects(build(Template().fromImage('evil/image'), 'broken'), /not built from the image/)
await assert.rejects(build(Template().fromBaseImage(), 'base'), /is configured/)
assert.equal(await Template.exists('broken'), false)
step('errors')
