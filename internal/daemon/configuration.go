package daemon

import (
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/doctor"
)

// A configuration is the file that a gateway goes by, as the API has it.
type configuration struct {
	live  *config.Live
	flags []api.ConfigFlag
}

var _ gateway.Configuration = configuration{}

// Show implements gateway.Configuration.
func (k configuration) Show(agent string, keys []string) (api.Configuration, error) {
	c := k.live.Config()
	shown := api.Configuration{File: c.File, Version: c.Version(), Agent: agent, Agents: append([]string{}, c.Agents()...), Flags: k.flags}
	if c.Err != nil {
		shown.Error = c.Err.Error()
	}
	if len(keys) == 0 {
		shown.Values = c.Values(agent)
	}
	for _, key := range keys {
		v, err := c.Get(key)
		if err != nil {
			return shown, err
		}
		shown.Values = append(shown.Values, v)
	}
	return shown, nil
}

// Change implements gateway.Configuration.
func (k configuration) Change(ch api.ConfigChange) (api.ConfigChanged, error) {
	file := k.live.Config().File
	if file == "" {
		return api.ConfigChanged{}, corral.Errorf(corral.ErrUnavailable, "give the gateway a file with --config", "the gateway has no place for a configuration")
	}
	e := config.Edit{File: file, Version: ch.Version}
	var c *config.Config
	var err error
	if ch.Value == nil {
		c, err = e.Unset(ch.Key)
	} else {
		c, err = e.Set(ch.Key, *ch.Value)
	}
	if err != nil {
		return api.ConfigChanged{}, err
	}
	changed := api.ConfigChanged{Version: c.Version(), Remarks: append([]string{}, doctor.UselessRules(c)...)}
	if atStart(ch.Key) {
		changed.Remarks = append(changed.Remarks, "It is read when the gateway starts: "+EngineRestart+".")
	}
	changed.Value, err = c.Get(ch.Key)
	return changed, err
}

// atStart reports whether a gateway that runs does not follow a key.
func atStart(key string) bool {
	first, _, _ := strings.Cut(key, ".")
	return first == "gateway" || first == "nodes" || first == "nats" || key == "sandbox.engine" || strings.HasSuffix(key, ".sandbox.engine")
}
