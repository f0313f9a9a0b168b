package config

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestSmoke(t *testing.T) {
	c, err := Parse("corral.json5", []byte(`{
  tools: { exec: { securty: "full", security: "ful", pathPrepend: ["~x", 1], timeout: -1, rules: [{allow: "x", deny: "y"}, {reason: "x"}], notifyOnExit: null, node: " ", safeBins: ["a/b"] }, elevated: {allowFrom: 3}, allow: ["excec"] },
  sandbox: { memory: "12q", cpus: 0, pids: 1.5, user: "0:0", mode: "on" }, agents: {list: [{tools: {}}, {id: "a"}, {id:"a"}]},
}`))
	fmt.Println(c, err)
	c, err = Parse("corral.json5", []byte(`{
  tools: { exec: { security: "full", pathPrepend: ["~/x"], timeout: 1.5, rules: [{allow: "x"}, {deny: "x"}] }, deny: ["process"] },
  sandbox: { memory: "512m", cpus: 'unlimited' }, agents: {list: [{id: "a", tools: {exec: {security: "deny", rules: [{ask: "git push"}]}}}]},
}`))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.MarshalIndent(c.Agent("a"), "", " ")
	fmt.Println(string(b))
	v, err := c.Get("agents.list[0].tools.exec.timeout")
	fmt.Println(v, string(v.Value), err)
	_, err = c.Get("agents.list[0].tools.exec.tiemout")
	fmt.Println(err)
	b, _ = json.MarshalIndent(Closed("f", err).Agent("a").Tools.Exec.Security, "", " ")
	fmt.Println(string(b))
}
