//go:build e2e && linux

package sandbox_test

import (
	"context"
	"slices"
	"testing"

	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

// untold is an engine that does not say how its runtimes are configured.
type untold struct{ engine.Engine }

func (e untold) Info(ctx context.Context) (engine.Info, error) {
	info, err := e.Engine.Info(ctx)
	info.RuntimeArgs = nil
	return info, err
}

// A sandbox on gVisor is given descriptors where its runsc lets it dial, whether or not
// the engine says so, and spoken to in messages elsewhere.
func TestDriverOfGVisor(t *testing.T) {
	docker := func(t *testing.T) engine.Engine { return enginetest.New(t) }
	for _, tc := range []struct {
		name, runtime string
		engine        func(t *testing.T) engine.Engine
		want          sandbox.Driver
		attempts      int
	}{
		{"closed", "runsc", docker, sandbox.DriverFrames, 1},
		{"open", "runsc-uds", docker, sandbox.DriverFDs, 1},
		{"closed, untold", "runsc", func(t *testing.T) engine.Engine { return untold{docker(t)} }, sandbox.DriverFrames, 2},
		{"open, untold", "runsc-uds", func(t *testing.T) engine.Engine { return untold{docker(t)} }, sandbox.DriverFDs, 1},
		{"containerd", "runsc", func(t *testing.T) engine.Engine { return enginetest.Containerd(t) }, sandbox.DriverFDs, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &attempted{Engine: tc.engine(t)}
			x := newBox(t, sandbox.Config{Engine: e, Runtime: tc.runtime})
			if got := output(t, x, "echo here"); got != "here\n" {
				t.Errorf("output %q", got)
			}
			st, err := x.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := sandbox.Driver(st.Container.Labels["corral.driver"]); got != tc.want {
				t.Errorf("driver %s, want %s", got, tc.want)
			}
			if e.created != tc.attempts {
				t.Errorf("%d containers were made, want %d", e.created, tc.attempts)
			}
		})
	}
}

// attempted counts the containers that are made.
type attempted struct {
	engine.Engine
	created int
}

func (e *attempted) Create(ctx context.Context, spec engine.Spec) (string, error) {
	e.created++
	return e.Engine.Create(ctx, spec)
}

// What the engine is told of runsc is what the driver is chosen by.
func TestOpensSockets(t *testing.T) {
	for _, tc := range []struct {
		args        []string
		opens, told bool
	}{
		{nil, false, false},
		{[]string{}, false, true},
		{[]string{"--network=none"}, false, true},
		{[]string{"--network=none", "--host-uds=open"}, true, true},
		{[]string{"-host-uds=all"}, true, true},
		{[]string{"--host-uds=create"}, false, true},
		{[]string{"--host-uds=none"}, false, true},
		{[]string{"--fsgofer-host-uds"}, true, true},
		{[]string{"--fsgofer-host-uds=false"}, false, true},
	} {
		info := engine.Info{Runtimes: []string{"runsc", "runc"}}
		if tc.args != nil {
			info.RuntimeArgs = map[string][]string{"runsc": tc.args, "runc": {}}
		}
		opens, told := info.OpensSockets("runsc")
		if opens != tc.opens || told != tc.told {
			t.Errorf("%q: %v, %v", tc.args, opens, told)
		}
		if got := slices.Contains(info.Closed(), "runsc"); got != (told && !opens) {
			t.Errorf("%q: closed %v", tc.args, got)
		}
	}
}
