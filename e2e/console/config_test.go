//go:build e2e

package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corral-exec/corral/images"
)

const annotated = `{
  // what agents may use
  sandbox: { memory: "1g" }, // not more
  tools: {exec: {host: "gateway", security: "full", ask: "off"}},
  agents: {list: [{id: "main"}, {id: "far", tools: {exec: {host: "node"}}}, {id: "boxed", tools: {exec: {host: "sandbox"}}}]},
}
`

// edit opens the editor of a key.
func (p *tab) edit(key string) {
	p.t.Helper()
	p.fill("input[aria-label=Search]", key)
	p.click2("button[aria-label='Edit " + key + "']")
	p.has("dialog form")
}

func TestConfigValues(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("config")
	p.sees("corral.json5")
	p.fill("input[aria-label=Search]", "sandbox.memory")
	p.sees("sandbox.memory, line 3")
	p.sees("Memory it may use") // the schema's help
	p.fill("input[aria-label=Search]", "sandbox.pids")
	p.sees("default")
	p.fill("input[aria-label=Search]", "no such key")
	p.sees("No key is like that.")
	p.fill("input[aria-label=Search]", " ")
	p.click2("main input[type=checkbox]")
	p.lacks("sandbox.pids")
	p.sees("sandbox.memory")
}

// What the gateway was started with is shown as it counts, and so it is where a key is edited.
func TestConfigFlags(t *testing.T) {
	g := common.get(t)
	g.configure(strings.Replace(annotated, "sandbox: {", `sandbox: { image: "other",`, 1))
	p := g.browser()
	p.owner("config")
	p.fill("input[aria-label=Search]", "--image")
	p.sees("The file has other")
	if row := js[string](p, "document.querySelector('tbody tr').innerText"); !strings.Contains(row, images.Busybox) || !strings.Contains(row, "--image") || strings.Contains(row, "line 3") {
		t.Errorf("the row is %q", row)
	}
	p.click2("button[aria-label='Edit sandbox.image']")
	p.sees("The gateway was started with --image")
	if value := js[string](p, "document.querySelector('dialog input[name=value]').value"); value != "other" {
		t.Errorf("what is edited is %q, and not what the file has", value)
	}
	p.click("Cancel")
	p.fill("input[aria-label=Search]", " ")
	p.click2("main input[type=checkbox]")
	p.sees("nodes.listen")
}

// What is changed is in the file, and the comments are as they were.
func TestConfigEdit(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("config")
	p.edit("sandbox.memory")
	p.sees("2g") // the default
	p.fill("dialog input[name=value]", "1536m\r")
	p.sees("1536m")
	if text := g.configText(); text != strings.Replace(annotated, `"1g"`, `"1536m"`, 1) {
		t.Errorf("the file is\n%s", text)
	}
	if got := g.corral("config", "get", "sandbox.memory"); got != "1536m" {
		t.Errorf("corral config get says %s", got)
	}
}

func TestConfigRemove(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("config")
	p.edit("sandbox.memory")
	p.click("Remove from the file")
	p.lacks("sandbox.memory, line 3")
	p.sees("2g")
	if text := g.configText(); strings.Contains(text, "1g") || !strings.Contains(text, "// what agents may use") {
		t.Errorf("the file is\n%s", text)
	}
}

// Words are chosen, lists are typed as lines.
func TestConfigForms(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("config")
	p.edit("tools.exec.ask")
	if words := js[string](p, "[...document.querySelectorAll('dialog option')].map((o) => o.value).join()"); words != "off,on-miss,always" {
		t.Errorf("it offers %s", words)
	}
	p.choose("dialog select", "always")
	p.click("Save")
	p.wait("!document.querySelector('dialog[open]')")
	p.edit("tools.exec.pathPrepend")
	js[bool](p, "(() => { const a = document.querySelector('dialog textarea'); a.value = '/opt/bin\\n/srv/bin'; a.dispatchEvent(new InputEvent('input', {bubbles: true})); return true })()")
	p.click("Save")
	p.wait("!document.querySelector('dialog[open]')")
	if text := g.configText(); !strings.Contains(text, `ask: "always"`) || !strings.Contains(text, `pathPrepend: ["/opt/bin","/srv/bin"]`) {
		t.Errorf("the file is\n%s", text)
	}
}

func TestConfigMistake(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("config")
	p.edit("sandbox.memory")
	p.fill("dialog input[name=value]", "much\r")
	p.has("dialog .problem")
	p.sees("nothing was written")
	if text := g.configText(); text != annotated {
		t.Errorf("the file is\n%s", text)
	}
}

// Two people who edit: the second is told, and then sees what the first wrote.
func TestConfigConflict(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("config")
	p.edit("sandbox.memory")
	g.corral("config", "set", "sandbox.pids", "99")
	p.fill("dialog input[name=value]", "3g\r")
	p.sees("was changed meanwhile; nothing was written")
	p.click("Cancel")
	p.fill("input[aria-label=Search]", "sandbox.pids")
	p.sees("99")
	p.edit("sandbox.memory")
	p.fill("dialog input[name=value]", "3g\r")
	p.sees("3g")
	if text := g.configText(); !strings.Contains(text, `"3g"`) || !strings.Contains(text, "99") {
		t.Errorf("the file is\n%s", text)
	}
}

func TestConfigOfAgent(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("config")
	p.click("New agent")
	p.fill("dialog input[name=id]", "nightly\r")
	p.wait("new URLSearchParams(location.search).get('agent') === 'nightly'")
	p.edit("sandbox.memory")
	p.sees("For the agent nightly:")
	p.fill("dialog input[name=value]", "4g\r")
	p.sees("4g")
	p.choose("select[aria-label=Agent]", "")
	p.fill("input[aria-label=Search]", "sandbox.memory")
	p.sees("1g")
	p.lacks("4g")
	if text := g.configText(); !strings.Contains(text, `{ id: "nightly", sandbox: { memory: "4g" } }`) {
		t.Errorf("the file is\n%s", text)
	}
}

// The gateway says what counts from its next start on.
func TestConfigRestart(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("config")
	p.edit("gateway.domain")
	p.fill("dialog input[name=value]", "ports.example\r")
	p.sees("It is read when the gateway starts")
}

func TestConfigBroken(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.owner("")
	g.configure("{ tools: }")
	p.open("config")
	p.sees("Correct the file with an editor.")
	if p.offers("Edit") {
		t.Error("it offers to edit a file that cannot be read")
	}
}

// An operator looks, an admin changes, and others see nothing of it.
func TestConfigRights(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.signIn(g.key("operator"), "config")
	p.sees("corral.json5")
	if p.offers("Edit") || p.offers("New agent") {
		t.Error("an operator is offered a change")
	}
	for _, key := range []string{g.key("viewer"), g.key("admin", "main")} {
		p = g.browser()
		p.signIn(key, "config")
		p.sees("There is no such page.")
	}
}

// bind chooses the node of an agent, and returns the file.
func (p *tab) bind(agent, node string) string {
	p.t.Helper()
	before := p.g.configText()
	p.has(fmt.Sprintf("select[aria-label='Node: %s']", agent))
	p.choose(fmt.Sprintf("select[aria-label='Node: %s']", agent), node)
	p.g.eventually("the configuration is written", func() bool { return p.g.configText() != before })
	return p.g.configText()
}

func TestBindAll(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("nodes")
	if text := p.bind("all agents", "builder"); !strings.Contains(text, `ask: "off", node: "builder"}`) || !strings.Contains(text, "// not more") {
		t.Errorf("the file is\n%s", text)
	}
}

func TestBindAgent(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("nodes")
	if text := p.bind("far", "builder"); !strings.Contains(text, `host: "node", node: "builder"`) {
		t.Errorf("the file is\n%s", text)
	}
	g.eventually("far is bound to the node", func() bool {
		return strings.Contains(g.corral("explain", "--json", "--agent", "far", "true"), "builder")
	})
	p.open("nodes")
	p.wait("document.querySelector(\"select[aria-label='Node: far']\")?.value === 'builder'")
	if text := p.bind("far", ""); strings.Contains(text, "builder") {
		t.Errorf("the file is\n%s", text)
	}
}

func TestBindPoolAndNewAgent(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	p := g.browser()
	p.owner("nodes")
	p.has("select[aria-label='Node: far']")
	p.fill("form.below input", "fresh\r")
	if text := p.bind("fresh", "pool:gpu"); !strings.Contains(text, `"id":"fresh"`) || !strings.Contains(text, "pool:gpu") {
		t.Errorf("the file is\n%s", text)
	}
}

// What /exec set is shown beside what the file says.
func TestBindOverridden(t *testing.T) {
	g := common.get(t)
	g.configure(annotated)
	g.post("far", "/v1/commands", `{"text":"/exec node=builder"}`)
	p := g.browser()
	p.owner("nodes")
	p.sees("now builder, by /exec")
	g.post("far", "/v1/commands", `{"text":"/exec node=default"}`)
}

func TestBindOperator(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.signIn(g.key("operator"), "nodes")
	p.sees("The role admin can change it.")
	p.wait("document.querySelector(\"select[aria-label='Node: far']\").disabled")
}
