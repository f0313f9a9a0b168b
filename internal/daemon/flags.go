package daemon

import (
	"encoding/json"

	"github.com/corral-exec/corral/api"
)

// configFlags are the keys of the configuration in whose place something counts that the
// gateway was started with.
func (o *GatewayOptions) configFlags() []api.ConfigFlag {
	list := []api.ConfigFlag{}
	add := func(is bool, flag, key string, value any) {
		if is {
			data, err := json.Marshal(value)
			must(err)
			list = append(list, api.ConfigFlag{Key: key, Flag: "--" + flag, Value: data})
		}
	}
	s := &o.Settings
	mode := ModeAll
	if s.Mode == ModeOff {
		mode = ModeOff
	}
	add(o.given("workspace"), "workspace", "workspace", s.Workspace.Dir)
	add(o.given("sandbox"), "sandbox", "sandbox.mode", mode)
	add(o.given("sandbox") && s.Mode == ModeRequired, "sandbox", "sandbox.required", true)
	for _, f := range []struct {
		flag, key string
		value     any
	}{
		{"image", "image", s.Image}, {"engine", "engine", s.Engine}, {"runtime", "runtime", s.Runtime}, {"driver", "driver", s.Driver},
		{"workspace-access", "workspaceAccess", s.Workspace.Access}, {"user", "user", s.Isolation.User},
		{"memory", "memory", orUnlimited(s.Resources.Memory)}, {"cpus", "cpus", orUnlimited(s.Resources.CPUs)}, {"pids", "pids", orUnlimited(s.Resources.Pids)},
	} {
		add(o.given(f.flag), f.flag, "sandbox."+f.key, f.value)
	}
	add(len(o.PathPrepend) > 0, "path-prepend", "tools.exec.pathPrepend", o.PathPrepend)
	if o.Timeout != nil {
		add(true, "timeout", "tools.exec.timeout", o.Timeout.Seconds())
	}
	add(o.Elevated, "allow-elevated", "tools.elevated.enabled", true)
	add(o.Elevated, "allow-elevated", "tools.elevated.allowFrom", []string{"*"})
	add(o.Listen != "", "listen", "gateway.listen", o.Listen)
	add(o.Nodes != "", "nodes", "nodes.listen", o.Nodes)
	add(o.WebSocket != "", "nodes-websocket", "nodes.websocket", o.WebSocket)
	add(o.Advertise != "", "nodes-advertise", "nodes.advertise", o.Advertise)
	return list
}

// orUnlimited is a limit as the configuration has it.
func orUnlimited[T int64 | float64](n T) any {
	if n < 0 {
		return "unlimited"
	}
	return n
}
