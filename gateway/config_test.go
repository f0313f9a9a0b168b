package gateway

import (
	"encoding/json"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
)

type fakeConfiguration struct{ said api.ConfigChange }

func (f *fakeConfiguration) Show(agent string, keys []string) (api.Configuration, error) {
	return api.Configuration{File: "/c", Version: "v1", Agent: agent, Agents: []string{}, Values: config.Default().Values(agent), Flags: []api.ConfigFlag{}}, nil
}

func (f *fakeConfiguration) Change(c api.ConfigChange) (api.ConfigChanged, error) {
	f.said = c
	if c.Version != "v1" {
		return api.ConfigChanged{}, corral.Errorf(corral.ErrConflict, "", "changed meanwhile")
	}
	return api.ConfigChanged{Value: config.Value{Key: c.Key, Value: json.RawMessage("null")}, Version: "v2", Remarks: []string{}}, nil
}

func TestConfigRoutes(t *testing.T) {
	f := &fakeConfiguration{}
	g := newRig(t, func(c *Config) { c.Configuration = f })
	g.do("GET", "/v1/config?agent=a", "").is(200)
	g.do("GET", "/v1/config/schema", "").is(200)
	g.do("PATCH", "/v1/config", `{"key":"tools.exec.ask","value":"off","version":"v1"}`).is(200)
	if f.said.Key != "tools.exec.ask" || f.said.Value == nil || *f.said.Value != "off" {
		t.Errorf("%+v", f.said)
	}
	g.do("PATCH", "/v1/config", `{"key":"tools.exec.ask","value":null,"version":"v0"}`).code(409, "conflict")
	newRig(t, nil).do("GET", "/v1/config", "").code(404, "not-found")
}
