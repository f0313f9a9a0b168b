package daemon

import (
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// A fakeMachine is what commands run on in a test.
type fakeMachine struct {
	gateway, sandbox fakeexec.Executor
	opened           []string       // sandboxes, in order
	got              SandboxOptions // the latest
}

func (m *fakeMachine) backends() Backends {
	return Backends{
		Host: func(KeeperOptions) (Executor, error) { return &m.gateway, nil },
		Sandbox: func(o SandboxOptions) (Executor, error) {
			m.opened, m.got = append(m.opened, o.Name), o
			return &m.sandbox, nil
		},
	}
}
