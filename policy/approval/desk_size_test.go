package approval

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// Everything that a caller can make large counts against the bound of what is pending.
func TestPendingBytes(t *testing.T) {
	many := make([]string, 5_000)
	for i := range many {
		many[i] = strings.Repeat("V", 50)
	}
	for name, change := range map[string]func(*Request){
		"names of variables": func(r *Request) { r.Binding.Env = many },
		"variables": func(r *Request) {
			for _, v := range many {
				r.Decision.Variables = append(r.Decision.Variables, policy.Variable{Name: v, SHA256: v, Reason: v})
			}
		},
		"directories": func(r *Request) { r.PathPrepend = many },
		"note":        func(r *Request) { r.Note = []byte(`"` + strings.Repeat("x", 1<<20) + `"`) },
		"segments": func(r *Request) {
			for range 5_000 {
				r.Decision.Segments = append(r.Decision.Segments, policy.Segment{Text: "a", Argv: []string{"a"}, Path: "/bin/a", RealPath: "/bin/a"})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDesk(t, t.TempDir())
			d.pendingBytes = 256 << 10
			req := request("x y")
			change(&req)
			ask(t, d, req)
			_, err := d.Ask(t.Context(), request("x z"))
			if err == nil || !strings.Contains(err.Error(), "too many approvals are pending") {
				t.Error(err)
			}
		})
	}
}

// A gateway cannot have a node remember more than that either.
func TestGrantedBytes(t *testing.T) {
	d := openDesk(t, t.TempDir())
	d.pendingBytes = 1 << 20
	given := func(id string) error {
		req := request("x " + strings.Repeat("y", 2<<20))
		_, err := d.Redeem(t.Context(), Given{ID: id, CommandID: id, Verdict: AllowOnce, Until: time.Now().Add(time.Minute)}, req)
		return err
	}
	ok(t, given("one"))
	if err := given("two"); !errors.Is(err, corral.ErrUnavailable) {
		t.Error(err)
	}
}
